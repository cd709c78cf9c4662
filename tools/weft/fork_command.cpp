#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "actors/roster.hpp"
#include "messages/parse_json.hpp"
#include "messages/untrusted.hpp"
#include "runtime/debug/fork.hpp"
#include "runtime/export/checkout.hpp"
#include "runtime/journal/journal_files.hpp"
#include "runtime/journal/lock.hpp"
#include "runtime/machine/files.hpp"
#include "runtime/ports/files_port.hpp"
#include "runtime/store/run_directory.hpp"
#include "tools/weft/commands.hpp"
#include "tools/weft/fork_settings.hpp"
#include "tools/weft/json_line.hpp"
#include "tools/weft/open_bus.hpp"
#include "tools/weft/own_runs.hpp"
#include "tools/weft/run_in_process.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kReplyBytesMax = std::size_t{64} << 20;

/// Each text "@FILE" becomes the name of a blob with the file's bytes.
Result<void> put_named_files(json& value, const fs::path& beside,
                             BlobStore& blobs) {
  if (value.is_structured()) {
    for (json& inner : value) {
      if (auto done = put_named_files(inner, beside, blobs); !done) return done;
    }
    return {};
  }
  if (!value.is_string()) return {};
  const auto text = value.get<std::string>();
  if (!text.starts_with('@')) return {};
  const auto bytes = read_file(beside / text.substr(1));
  if (!bytes) return std::unexpected(bytes.error());
  value = blobs.put(*bytes);
  return {};
}

Result<json> read_reply(const fs::path& file, BlobStore& blobs) {
  const auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  if (text->size() > kReplyBytesMax) {
    return fail(ErrorCode::wrong_input,
                file.string() + " is too large for an answer");
  }
  json reply = parse_json(*text);
  if (reply.is_discarded()) {
    return fail(ErrorCode::wrong_input, file.string() + " is no JSON");
  }
  const auto put = put_named_files(reply, file.parent_path(), blobs);
  if (!put) return std::unexpected(put.error());
  return reply;
}

Result<RunOptions> recorded_options(const Journal& journal) {
  Result<RunOptions> options = fail(ErrorCode::wrong_input,
                                    "the run's journal does not begin with a "
                                    "RunStart: there is nothing to fork");
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (message && std::holds_alternative<RunStart>(*message)) {
      const auto& start = std::get<RunStart>(*message);
      options = start.options;
      if (const auto sound = check_start(start); !sound) {
        options = std::unexpected(sound.error());
      }
    }
    return false;
  });
  if (!read) return std::unexpected(read.error());
  return options;
}

/// What was written into the origin's folder by then is written into this one.
Result<void> write_files_again(const Journal& journal, BlobStore& blobs,
                               const fs::path& folder) {
  std::map<std::uint64_t, WriteFilesRequest> asked;
  Result<void> done;
  const auto read = journal.read(1, [&](const Envelope& envelope) {
    const auto message = decode(envelope.type, envelope.body);
    if (!message) return true;
    if (const auto* m = std::get_if<WriteFilesRequest>(&*message)) {
      asked[envelope.seq] = *m;
    } else if (std::holds_alternative<WriteFilesReply>(*message)) {
      const auto request = asked.extract(envelope.cause);
      if (request.empty()) return true;
      const auto reply = write_files(folder, blobs, request.mapped());
      if (reply.failure) {
        done = fail(ErrorCode::failed, reply.failure.message);
      }
    }
    return done.has_value();
  });
  return read ? done : read;
}

/// Where a fork is made before it is a run: one that was not finished is none.
struct Draft {
  fs::path journal;

  explicit Draft(const RunDirectory& run) : journal(run.folder() / "fork.db") {
    (void)remove_journal(journal);
  }
  ~Draft() { (void)remove_journal(journal); }

  Result<void> become(const fs::path& target) const {
    std::error_code error;
    fs::rename(JournalLock::path_of(journal), JournalLock::path_of(target),
               error);
    if (!error) fs::rename(journal, target, error);
    if (!error) return {};
    return fail(ErrorCode::failed,
                "cannot make " + target.string() + ": " + error.message());
  }
};

json origin_of(const RunDirectory& origin, const Journal& journal,
               const ForkFlags& flags, const ForkOrder& order,
               const ForkEnd& end) {
  json about = {{"run", origin.folder().string()},
                {"seq", flags.at},
                {"set", flags.settings},
                {"words_changed", end.words_changed},
                {"answers_reused", end.answers_reused}};
  if (const auto name = journal.meta("run")) about["name"] = *name;
  if (order.reply) about["reply"] = *order.reply;
  return about;
}

Result<ForkEnd> make_fork(const RunDirectory& origin, const RunDirectory& run,
                          const ForkFlags& flags) {
  const auto recorded_journal = Journal::open_read_only(origin.journal());
  if (!recorded_journal) return std::unexpected(recorded_journal.error());
  ForkOrder order{.at = flags.at};
  if (!flags.settings.empty()) {
    const auto recorded = recorded_options(*recorded_journal);
    if (!recorded) return std::unexpected(recorded.error());
    auto options = changed_options(*recorded, flags.settings);
    if (!options) return std::unexpected(options.error());
    order.options = std::move(*options);
  }
  const Draft draft(run);
  Result<ForkEnd> end;
  {
    auto journal = Journal::create(draft.journal, Sync::normal);
    if (!journal) return std::unexpected(journal.error());
    BlobStore blobs(*journal);
    if (flags.reply) {
      auto reply = read_reply(*flags.reply, blobs);
      if (!reply) return std::unexpected(reply.error());
      order.reply = std::move(*reply);
    }
    end = fork_journal(*recorded_journal, *journal, blobs, order, &make_role);
    if (!end) return end;
    const auto files = write_files_again(*journal, blobs, run.folder());
    if (!files) return std::unexpected(files.error());
    const json about = origin_of(origin, *recorded_journal, flags, order, *end);
    const auto noted = journal->set_meta(
        "origin", about.dump(-1, ' ', false, json::error_handler_t::replace));
    if (!noted) return std::unexpected(noted.error());
    if (is_own(*recorded_journal)) {
      const auto start = read_start(*journal);
      if (!start) return std::unexpected(start.error());
      mark_own(*journal, *start);
    }
    if (const auto checkout = recorded_journal->meta(kCheckoutMeta)) {
      const auto stored = journal->set_meta(kCheckoutMeta, *checkout);
      if (!stored) return std::unexpected(stored.error());
    }
  }
  const auto done = draft.become(run.journal());
  if (!done) return std::unexpected(done.error());
  return end;
}

void say_made(const CommonFlags& common, const RunDirectory& run,
              const ForkFlags& flags, const ForkEnd& end) {
  const std::string folder = run.folder().string();
  if (common.json) {
    const json line = {{"fork", folder},
                       {"seq", flags.at},
                       {"words_changed", end.words_changed},
                       {"answers_reused", end.answers_reused}};
    print_line(line);
    return;
  }
  if (common.quiet) return;
  std::printf("forked at event %llu: %s\n",
              static_cast<unsigned long long>(flags.at), folder.c_str());
  if (end.words_changed == 0) return;
  std::printf(
      "%llu words of the roles read otherwise by these settings; %zu "
      "answers stand that were given to other requests\n",
      static_cast<unsigned long long>(end.words_changed),
      end.answers_reused.size());
}

/// "runs/softmax" -> "runs/softmax-fork-120", or "-2" and so on where that is.
fs::path default_fork_folder(const RunDirectory& origin, std::uint64_t at) {
  const std::string base =
      origin.folder().string() + "-fork-" + std::to_string(at);
  fs::path folder = base;
  std::error_code error;
  for (int i = 2; fs::exists(folder, error); ++i) {
    folder = base + "-" + std::to_string(i);
  }
  return folder;
}

}  // namespace

int fork_command(const CommonFlags& common, const ForkFlags& flags) {
  const auto origin = RunDirectory::open(flags.run);
  if (!origin) return report_error(common, origin.error());
  if (const auto closed = check_listening(flags.resume.listen); !closed) {
    return report_error(common, closed.error());
  }
  const auto run = RunDirectory::create(
      flags.out.value_or(default_fork_folder(*origin, flags.at)));
  if (!run) return report_error(common, run.error());
  const auto result = make_fork(*origin, *run, flags);
  if (!result) {
    std::error_code ignored;
    fs::remove(run->folder(), ignored);  // where nothing is in it
    return report_error(common, result.error());
  }
  say_made(common, *run, flags, *result);
  if (flags.only_make) return 0;
  ResumeFlags resume = flags.resume;
  resume.run = run->folder();
  return resume_command(common, resume);
}

}  // namespace weft
