#include "runtime/bus/lobby.hpp"

#include <condition_variable>
#include <mutex>
#include <variant>

#include "runtime/bus/socket_thread.hpp"

namespace weft {

void HeardNodes::on_frame(std::string_view header, std::int64_t now_ms) {
  const auto read = wire::decode_header(header);
  if (!read) return;
  if (const auto* bye = std::get_if<wire::Bye>(&*read)) {
    heard_.erase(bye->node);
    return;
  }
  const auto* hello = std::get_if<wire::Hello>(&*read);
  if (hello == nullptr) return;
  if (known_.insert(hello->incarnation).second) new_ms_ = now_ms;
  heard_[hello->name] = {*hello, now_ms};
}

std::vector<wire::Hello> HeardNodes::present(std::int64_t now_ms) const {
  std::vector<wire::Hello> all;
  for (const auto& [name, heard] : heard_) {
    if (now_ms - heard.at_ms <= silence_ms_) all.push_back(heard.hello);
  }
  return all;
}

Result<Gathered> gather_nodes(
    const LobbyOptions& options,
    const std::function<bool(const std::vector<wire::Hello>&)>& is_enough,
    const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  Gathered gathered;
  bool is_done = false;
  HeardNodes heard(options.silence_ms);  // the socket thread's
  SocketThread::Options socket;
  socket.is_head = true;
  socket.endpoint = options.endpoint;
  socket.keys = options.keys;
  SocketThread::Callbacks callbacks;
  callbacks.on_frame = [&](const std::string&, std::string_view header,
                           const std::string&, std::int64_t now_ms) {
    heard.on_frame(header, now_ms);
  };
  callbacks.on_turn = [&](std::int64_t now_ms, bool is_tick) {
    if (!is_tick || heard.quiet_ms(now_ms) < options.gather_ms) return;
    auto nodes = heard.present(now_ms);
    const std::lock_guard lock(mutex);
    if (is_done || !is_enough(nodes)) return;
    gathered.nodes = std::move(nodes);
    is_done = true;
    changed.notify_all();
  };
  callbacks.on_stranger = [] {};
  SocketThread thread(std::move(socket), std::move(callbacks));
  if (const auto started = thread.start(); !started) {
    return std::unexpected(started.error());
  }
  gathered.endpoint = thread.bound();
  if (options.on_listening) options.on_listening(thread.bound());
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, stop, [&] { return is_done; });
  }
  thread.stop();
  if (is_done) return gathered;
  return fail(ErrorCode::failed, "stopped before a node came");
}

}  // namespace weft
