// The few CAF calls that weft uses, the same over Debian's 0.17.6 and 1.x. No
// other file sends CAF messages or includes CAF's headers.
#pragma once

#define CAF_SUPPRESS_DEPRECATION_WARNINGS
#include <caf/all.hpp>
#if CAF_MAJOR_VERSION >= 1
#include <caf/init_global_meta_objects.hpp>
#endif

/// Registers T as a message that never leaves the process.
#define WEFT_LOCAL_MESSAGE(block, T) \
  CAF_ADD_TYPE_ID(block, (T))        \
  CAF_ALLOW_UNSAFE_MESSAGE_TYPE(T)

namespace weft::caf_compat {

#if CAF_MAJOR_VERSION >= 1

template <class Block>
void init() {
  caf::core::init_global_meta_objects();
  caf::init_global_meta_objects<Block>();
}

inline void configure(caf::actor_system_config& config, std::size_t threads) {
  config.set("caf.scheduler.max-threads", threads);
  config.set("caf.scheduler.policy", "sharing");
}

template <class Actor>
auto& state(Actor* self) {
  return self->state();
}

/// No sender on purpose: from 0.18 on, a receiver's error is mailed back to an
/// asynchronous sender and its default handler would kill it.
template <class... Parts>
void post(const caf::actor& to, Parts&&... parts) {
  caf::anon_mail(std::forward<Parts>(parts)...).send(to);
}

#else

template <class Block>
void init() {}

inline void configure(caf::actor_system_config& config, std::size_t threads) {
  config.set("scheduler.max-threads", threads);
  // "stealing" polls and costs an idle core 0.7 %; "sharing" sleeps.
  config.set("scheduler.policy", caf::atom("sharing"));
}

template <class Actor>
auto& state(Actor* self) {
  return self->state;
}

template <class... Parts>
void post(const caf::actor& to, Parts&&... parts) {
  caf::anon_send(to, std::forward<Parts>(parts)...);
}

#endif

inline void stop(const caf::actor& actor) {
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

}  // namespace weft::caf_compat
