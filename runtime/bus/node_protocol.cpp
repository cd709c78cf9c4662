#include "runtime/bus/node_protocol.hpp"

#include <algorithm>

namespace weft {
namespace {

using namespace node_action;

constexpr std::int64_t kComplainMs = 60'000;
/// Who sees nothing happen is told why.
constexpr std::int64_t kSayWaitsMs = 2'000;
/// A node says goodbye this often, and so long to a head that let it in, or to
/// one that may be about to.
constexpr std::int64_t kByeMs = 200;
constexpr std::int64_t kPartingMs = 2'000;
constexpr std::int64_t kPartingUnknownMs = 500;

}  // namespace

void NodeProtocol::on_frame(std::string_view header, std::string body,
                            std::int64_t now_ms) {
  if (has_quit_ || body.size() > wire::kBodyBytesMax) return;
  const auto read = wire::decode_header(header);
  if (!read) {
    act(Log{"the head sent " + read.error().message});
    return act(Reconnect{});
  }
  heard_ms_ = now_ms;
  if (is_parting_) {
    if (std::holds_alternative<wire::Bye>(*read)) quit("");
    return;
  }
  const auto is_current = [&](std::uint64_t session) {
    return is_welcome_ && session == session_;
  };
  if (const auto* m = std::get_if<wire::Welcome>(&*read)) {
    welcome(*m, std::move(body), now_ms);
  } else if (const auto* m = std::get_if<wire::Refusal>(&*read)) {
    refused(*m, now_ms);
  } else if (std::holds_alternative<wire::Who>(*read)) {
    is_welcome_ = false;
    say_hello(now_ms);
  } else if (const auto* m = std::get_if<wire::Request>(&*read)) {
    if (is_current(m->session)) take_request(*m, std::move(body), now_ms);
  } else if (const auto* m = std::get_if<wire::Cancel>(&*read)) {
    if (!is_current(m->session)) return;
    if (link_.take(m->seq) != Link::Taken::fresh) return;
    link_.settle(m->seq);
    const auto job = jobs_.find(m->id);
    if (job != jobs_.end() && !job->second.is_done) act(Stop{m->id});
  } else if (const auto* m = std::get_if<wire::Ack>(&*read)) {
    if (is_current(m->session)) take_ack(*m);
    part_if_done(now_ms);
  } else if (const auto* m = std::get_if<wire::Want>(&*read)) {
    bool load = false;
    for (auto& answer : sender_.asked("", *m, load)) {
      say(std::move(answer.frame), now_ms);
    }
    if (load) act(Load{m->hash});
  } else if (const auto* m = std::get_if<wire::Chunk>(&*read)) {
    take_blob(*m, body, now_ms);
  } else if (const auto* m = std::get_if<wire::Lack>(&*read)) {
    receiver_.forget(m->hash);
    act(Blob{m->hash, nullptr});
  } else if (const auto* m = std::get_if<wire::Bye>(&*read)) {
    take_bye(*m, now_ms);
  }
}

void NodeProtocol::take_blob(const wire::Chunk& chunk, const std::string& body,
                             std::int64_t now_ms) {
  auto taken = receiver_.take(chunk, body, now_ms);
  if (!taken) {
    act(Log{taken.error().message + "; it is asked for again"});
    receiver_.forget(chunk.hash);
    receiver_.want(chunk.hash);
  } else if (*taken) {
    act(Blob{chunk.hash,
             std::make_shared<const std::string>(std::move(**taken))});
  }
}

/// The run has ended, whatever session the head means: one that was begun in
/// between is over, too.
void NodeProtocol::take_bye(const wire::Bye& bye, std::int64_t now_ms) {
  if (bye.session == wire::kLastByeSession) {
    // The Bye of the run may be lost.
    if (!run_.empty()) end_run();
    say_header(wire::Bye{bye.session}, now_ms);
    if (options_.once || is_leaving_) quit("");
    return;
  }
  const bool is_mine = !run_.empty() && bye.run == run_;
  if (!is_mine && !(is_welcome_ && bye.session == session_)) return;
  say_header(wire::Bye{bye.session}, now_ms);
  end_run();
  if ((options_.once && !bye.more) || is_leaving_) quit("");
}

void NodeProtocol::say_hello(std::int64_t now_ms) {
  hello_ms_ = now_ms;
  options_.hello.run = run_;
  say_header(options_.hello, now_ms);
}

void NodeProtocol::welcome(const wire::Welcome& welcome, std::string start,
                           std::int64_t now_ms) {
  // The head says hello's answer again where that was said again.
  if (is_welcome_ && welcome.run == run_ && welcome.session <= session_) return;
  if (welcome.run != run_) {
    if (!run_.empty()) end_run();
    run_ = welcome.run;
    act(Begin{run_, std::move(start)});
  }
  is_welcome_ = true;
  session_ = welcome.session;
  heartbeat_ms_ = welcome.heartbeat_ms;
  options_.silence_ms = std::max<std::int64_t>(welcome.silence_ms, 1);
  link_ = Link();
  answers_.clear();
  receiver_.reconnected();
  for (auto& [id, job] : jobs_) {
    if (job.is_done) submit(id, job, now_ms);
  }
  if (is_leaving_) say_header(wire::Leave{session_}, now_ms);
}

void NodeProtocol::refused(const wire::Refusal& refusal, std::int64_t now_ms) {
  is_welcome_ = false;
  if (refusal.for_good) return quit(refusal.reason);
  if (complained_ms_ != 0 && now_ms - complained_ms_ < kComplainMs) return;
  complained_ms_ = now_ms;
  act(Log{"not let in yet: " + refusal.reason});
}

void NodeProtocol::take_request(const wire::Request& request, std::string body,
                                std::int64_t now_ms) {
  if (is_leaving_) return;  // the head's again when this node has gone
  if (link_.take(request.seq) != Link::Taken::fresh) return;
  link_.settle(request.seq);
  const auto [found, is_new] = jobs_.try_emplace(request.id);
  if (is_new) {
    // What it refers to is needed soon: no port waits for it then.
    act(Work{request.id, request.port, request.type, std::move(body)});
  } else if (found->second.is_done && found->second.seq == 0) {
    submit(request.id, found->second, now_ms);
  }
}

void NodeProtocol::take_ack(const wire::Ack& ack) {
  link_.acknowledged(ack.ranges);
  for (const wire::Range& range : ack.ranges) {
    auto next = answers_.lower_bound(range.first);
    while (next != answers_.end() && next->first <= range.last) {
      jobs_.erase(next->second);
      act(Settled{next->second});
      next = answers_.erase(next);
    }
  }
}

void NodeProtocol::result(std::uint64_t id, std::string type, std::string body,
                          std::vector<wire::BlobRef> blobs,
                          std::int64_t now_ms) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.is_done) return;
  Job& job = found->second;
  job.is_done = true;
  job.type = std::move(type);
  job.body = std::make_shared<const std::string>(std::move(body));
  job.blobs = std::move(blobs);
  if (is_welcome_) submit(id, job, now_ms);
}

void NodeProtocol::submit(std::uint64_t id, Job& job, std::int64_t now_ms) {
  job.seq = link_.next_seq();
  wire::Frame frame{wire::encode_header(wire::Reply{session_, job.seq, id,
                                                    job.type, job.blobs}),
                    job.body};
  answers_[job.seq] = id;
  link_.sent(job.seq, frame, now_ms);
  say(std::move(frame), now_ms);
}

bool NodeProtocol::need(const std::string& hash) {
  return receiver_.want(hash);
}

void NodeProtocol::loaded(const std::string& hash, BlobSender::Bytes bytes) {
  if (!bytes) forget_answers_with(hash);
  for (auto& answer : sender_.loaded(hash, std::move(bytes))) {
    act(Send{std::move(answer.frame)});
  }
}

/// A blob of theirs is lost: the head asks for the work again.
void NodeProtocol::forget_answers_with(const std::string& hash) {
  std::erase_if(jobs_, [&](const auto& item) {
    const auto& [id, job] = item;
    const auto found = std::ranges::find(job.blobs, hash, &wire::BlobRef::hash);
    if (found == job.blobs.end()) return false;
    answers_.erase(job.seq);
    act(Settled{id});
    return true;
  });
}

void NodeProtocol::end_run() {
  act(End{});
  run_.clear();
  is_welcome_ = false;
  jobs_.clear();
  answers_.clear();
  link_ = Link();
  receiver_ = BlobReceiver();
}

void NodeProtocol::leave(std::int64_t now_ms, std::string why) {
  if (is_leaving_) return;
  is_leaving_ = true;
  leaves_why_ = std::move(why);
  leave_until_ms_ = now_ms + options_.leave_ms;
  if (is_welcome_) say_header(wire::Leave{session_}, now_ms);
  for (auto next = jobs_.begin(); next != jobs_.end();) {
    const auto job = next++;
    if (job->second.is_done) continue;
    act(Stop{job->first});
    jobs_.erase(job);
  }
  part_if_done(now_ms);
}

void NodeProtocol::part_if_done(std::int64_t now_ms) {
  if (!is_leaving_ || is_parting_ || has_quit_ || !jobs_.empty()) return;
  if (hello_ms_ == 0) return quit("");  // nobody knows of it
  is_parting_ = true;
  const std::int64_t for_ms = run_.empty() ? kPartingUnknownMs : kPartingMs;
  leave_until_ms_ = std::min(leave_until_ms_, now_ms + for_ms);
  say_bye(now_ms);
}

void NodeProtocol::say_bye(std::int64_t now_ms) {
  bye_ms_ = now_ms;
  // A head may have let it in, and its welcome be under way.
  const std::uint64_t session = is_welcome_ ? session_ : 0;
  const wire::Hello& self = options_.hello;
  say_header(wire::Bye{session, "", self.name, self.incarnation, leaves_why_},
             now_ms);
}

void NodeProtocol::quit(std::string refused) {
  has_quit_ = true;
  act(Quit{std::move(refused)});
}

void NodeProtocol::say(wire::Frame frame, std::int64_t now_ms) {
  spoken_ms_ = now_ms;
  act(Send{std::move(frame)});
}

void NodeProtocol::flush(std::int64_t now_ms) {
  if (!is_welcome_ || is_parting_) return;
  if (link_.owes_many_acks()) acknowledge(now_ms);
  for (const wire::Want& want : receiver_.ask(now_ms)) say_header(want, now_ms);
}

void NodeProtocol::acknowledge(std::int64_t now_ms) {
  auto ranges = link_.take_acks();
  if (!ranges.empty()) {
    say_header(wire::Ack{session_, std::move(ranges)}, now_ms);
  }
}

void NodeProtocol::tick(std::int64_t now_ms) {
  if (has_quit_) return;
  if (is_leaving_ && now_ms >= leave_until_ms_) {
    say_bye(now_ms);
    return quit("");
  }
  if (is_parting_) {
    if (now_ms - bye_ms_ >= kByeMs) say_bye(now_ms);
    return;
  }
  if (connected_ms_ == 0) connected_ms_ = began_ms_ = now_ms;
  if (heard_ms_ == 0 && !has_said_ && now_ms - began_ms_ >= kSayWaitsMs) {
    has_said_ = true;
    act(
        Log{"no head answers yet: it waits for a run that listens there, and "
            "with keys for one that allows this node's"});
  }
  const std::int64_t last = std::max(heard_ms_, connected_ms_);
  if (now_ms - last > options_.silence_ms) {
    connected_ms_ = now_ms;
    is_welcome_ = false;
    act(Reconnect{});
  }
  if (!run_.empty() && now_ms - heard_ms_ > options_.patience_ms) {
    act(Log{"the head is away for too long: its work is dropped"});
    end_run();
    if (options_.once) return quit("");
  }
  // One that begins when all is over finds nobody.
  if (options_.once && run_.empty() &&
      now_ms - std::max(heard_ms_, began_ms_) > options_.patience_ms) {
    act(Log{"no head has let it in: it goes"});
    return quit("");
  }
  if (!is_welcome_) {
    if (now_ms - hello_ms_ >= options_.hello_ms) say_hello(now_ms);
    return;
  }
  for (wire::Frame& frame : link_.due(now_ms)) say(std::move(frame), now_ms);
  acknowledge(now_ms);
  flush(now_ms);
  if (now_ms - spoken_ms_ >= heartbeat_ms_) {
    say_header(wire::Beat{session_}, now_ms);
  }
}

}  // namespace weft
