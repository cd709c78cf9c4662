#include "host.hpp"

#include <sched.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#include <barrier>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

int host_assertions = 0;

#ifdef __x86_64__
// Leaves the stack that `*from` is to remember, and goes on where `to` was
// left (switch_x86_64.S). swapcontext does it as well, with a system call for
// the mask of signals: that was half of what these tests took.
extern "C" __attribute__((visibility("hidden"))) void host_switch(void** from,
                                                                  void* to);
#endif

namespace host {
namespace {

constexpr std::size_t stack_bytes = 96 << 10;
/// Fibers that are kept for the next block.
constexpr std::size_t spare_max = 4096;

/// Where a stack was left.
#ifdef __x86_64__
struct Context {
  void* top;

  void begin(char* stack, void (*body)()) {
    auto end = reinterpret_cast<std::uintptr_t>(stack + stack_bytes) / 16 * 16;
    auto** words = reinterpret_cast<void**>(end) - 8;
    // Six registers, where to go on, and what a call would have left there.
    for (int i = 0; i < 8; ++i) words[i] = nullptr;
    words[6] = reinterpret_cast<void*>(body);
    top = words;
  }
};
void change(Context& from, Context& to) { host_switch(&from.top, to.top); }
#else
struct Context {
  ucontext_t context;

  void begin(char* stack, void (*body)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, body, 0);
  }
};
void change(Context& from, Context& to) {
  swapcontext(&from.context, &to.context);
}
#endif

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

struct Fiber {
  Context context;
  std::unique_ptr<char[]> stack{new char[stack_bytes]};
  Place place;
  std::deque<std::vector<Copy>> groups;
  /// Of this exchange and the last one, which others may not have read yet.
  alignas(16) char given[2][16];
  unsigned exchanges;
};

/// Fibers wait here until all that still run have come.
struct Meeting {
  std::vector<Fiber*> waiting;
};

/// A phase ends when all have arrived and what was announced is there. It is
/// copied as late as may be: when somebody awaits it.
struct Barrier {
  int arrivals;
  int missing;
  int announced = 0;
  unsigned phase = 0;
  std::vector<Copy> copies;
  Meeting waiting;
};

struct Cluster {
  explicit Cluster(int blocks) : barrier(blocks), anchors(blocks) {}
  std::barrier<> barrier;
  std::vector<char*> anchors;
};

struct Block {
  const Launch* launch;
  void (*body)(void*);
  void* argument;
  Place place;
  Cluster* cluster;
  Context home;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::deque<Fiber*> ready;
  Meeting all;
  std::vector<Meeting> warps;
  std::vector<int> running_in_warp;
  std::vector<unsigned char> memory;
  std::map<void*, Barrier> barriers;
  int running;
  Fiber* current = nullptr;
};

thread_local Block* block;

/// Made once: their stacks are what a block costs.
class Spare {
 public:
  void take(std::vector<std::unique_ptr<Fiber>>& fibers, int count) {
    {
      const std::lock_guard lock(mutex_);
      while (count > 0 && !fibers_.empty()) {
        fibers.push_back(std::move(fibers_.back()));
        fibers_.pop_back();
        --count;
      }
    }
    while (count-- > 0) fibers.push_back(std::make_unique<Fiber>());
  }
  void give_back(std::vector<std::unique_ptr<Fiber>>& fibers) {
    const std::lock_guard lock(mutex_);
    for (auto& fiber : fibers) {
      if (fibers_.size() < spare_max) fibers_.push_back(std::move(fiber));
    }
    fibers.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
} spare;

/// The next that is ready goes on; where none is, the block's own loop.
void leave() {
  Fiber& self = *block->current;
  if (block->ready.empty()) {
    change(self.context, block->home);
    return;
  }
  block->current = block->ready.front();
  block->ready.pop_front();
  if (block->current != &self) change(self.context, block->current->context);
}

bool arrive(Meeting& meeting, int expected) {
  meeting.waiting.push_back(block->current);
  return static_cast<int>(meeting.waiting.size()) == expected;
}

void release(Meeting& meeting) {
  for (Fiber* fiber : meeting.waiting) block->ready.push_back(fiber);
  meeting.waiting.clear();
}

void end_phase(Barrier& barrier) {
  for (const Copy& copy : barrier.copies) {
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
  barrier.copies.clear();
  barrier.announced = 0;
  barrier.missing = barrier.arrivals;
  ++barrier.phase;
  release(barrier.waiting);
}

bool is_due(const Barrier& barrier) {
  std::size_t bytes = 0;
  for (const Copy& copy : barrier.copies) bytes += copy.bytes;
  return barrier.missing == 0 && static_cast<int>(bytes) == barrier.announced;
}

void end_if_awaited(Barrier& barrier) {
  const bool awaited = !barrier.waiting.waiting.empty();
  if (is_due(barrier) && (awaited || barrier.announced == 0)) {
    end_phase(barrier);
  }
}

void begin() {
  block->body(block->argument);
  --block->running;
  --block->running_in_warp[block->current->place.x / 32];
  leave();
  __builtin_trap();  // nothing comes back to it
}

void run_block(Block& self) {
  block = &self;
  const int threads = self.launch->threads;
  spare.take(self.fibers, threads);
  self.warps = std::vector<Meeting>((threads + 31) / 32);
  self.running_in_warp.assign(self.warps.size(), 0);
  self.memory.assign(self.launch->shared_bytes + 16, 0xff);
  self.running = threads;
  for (int t = 0; t < threads; ++t) {
    Fiber& fiber = *self.fibers[t];
    fiber.place.x = t;
    fiber.groups.assign(1, {});
    fiber.exchanges = 0;
    fiber.context.begin(fiber.stack.get(), begin);
    ++self.running_in_warp[t / 32];
    self.ready.push_back(&fiber);
  }
  while (!self.ready.empty()) {
    self.current = self.ready.front();
    self.ready.pop_front();
    change(self.home, self.current->context);
  }
  if (self.running != 0) __builtin_trap();  // threads that wait for ever
  spare.give_back(self.fibers);
}

}  // namespace

const Place& thread_place() { return block->current->place; }
const Place& block_place() { return block->place; }
int lane() { return block->current->place.x % 32; }

void meet_block() {
  if (arrive(block->all, block->running)) release(block->all);
  leave();
}

void sync_cluster() {
  if (arrive(block->all, block->running)) {
    block->cluster->barrier.arrive_and_wait();
    release(block->all);
  }
  leave();
}

void yield_block() { sched_yield(); }

void exchange(void* value, std::size_t bytes, int lane) {
  Fiber* self = block->current;
  const int warp = self->place.x / 32;
  const unsigned turn = self->exchanges++ % 2;
  std::memcpy(self->given[turn], value, bytes);
  const int expected = block->running_in_warp[warp];
  if (arrive(block->warps[warp], expected)) release(block->warps[warp]);
  leave();
  std::memcpy(value, block->fibers[32 * warp + lane]->given[turn], bytes);
}

unsigned char* dynamic_shared() {
  auto address = reinterpret_cast<std::uintptr_t>(block->memory.data());
  return reinterpret_cast<unsigned char*>((address + 15) / 16 * 16);
}

char* anchor_of(int other) { return block->cluster->anchors[other]; }

void set_anchor(char* anchor) {
  if (!block->cluster) return;
  block->cluster->anchors[block->place.x % block->launch->cluster] = anchor;
}

void copy_async(void* to, const void* from, std::size_t bytes) {
  block->current->groups.back().push_back({to, from, bytes});
}

void commit_copies() { block->current->groups.emplace_back(); }

void wait_copies(int pending) {
  auto& groups = block->current->groups;
  while (static_cast<int>(groups.size()) - 1 > pending) {
    for (const Copy& copy : groups.front()) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
    groups.pop_front();
  }
}

void yield_thread() {
  block->ready.push_back(block->current);
  leave();
  sched_yield();
}

void barrier_init(void* barrier, int arrivals) {
  block->barriers[barrier] = {arrivals, arrivals};
}

void barrier_arrive(void* barrier, int bytes) {
  Barrier& self = block->barriers.at(barrier);
  if (self.missing == 0) __builtin_trap();  // more arrivals than expected
  --self.missing;
  self.announced += bytes;
  end_if_awaited(self);
}

void barrier_wait(void* barrier, unsigned parity) {
  Barrier& self = block->barriers.at(barrier);
  if (self.phase % 2 == parity && is_due(self)) end_phase(self);
  if (self.phase % 2 != parity) return;
  self.waiting.waiting.push_back(block->current);
  leave();
}

void copy_bulk(void* to, const void* from, int bytes, void* barrier) {
  Barrier& self = block->barriers.at(barrier);
  if (bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(to) % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
    __builtin_trap();
  }
  self.copies.push_back({to, from, static_cast<std::size_t>(bytes)});
  end_if_awaited(self);
}

void run(const Launch& launch, void (*body)(void*), void* context) {
  const auto start = [&](int number, Cluster* cluster) {
    Block self;
    self.launch = &launch;
    self.body = body;
    self.argument = context;
    self.place.x = number;
    self.cluster = cluster;
    run_block(self);
  };
  if (launch.cluster == 1 && !launch.all) {
    std::thread([&] {
      for (int i = 0; i < launch.blocks; ++i) start(i, nullptr);
    }).join();
    return;
  }
  const int together = launch.all ? launch.blocks : launch.cluster;
  for (int first = 0; first < launch.blocks; first += together) {
    Cluster cluster(launch.cluster);
    std::vector<std::thread> threads;
    for (int i = 0; i < together; ++i) {
      threads.emplace_back(start, first + i, launch.all ? nullptr : &cluster);
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace host
