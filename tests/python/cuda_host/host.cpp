#include "host.hpp"

#include <sched.h>
#include <ucontext.h>

#include <barrier>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <vector>

int host_assertions = 0;

namespace host {
namespace {

constexpr std::size_t stack_bytes = 96 << 10;

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Place place;
  std::deque<std::vector<Copy>> groups = {{}};
  alignas(16) char given[16];
  bool over = false;
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
  ucontext_t home;
  std::vector<Fiber> fibers;
  std::deque<Fiber*> ready;
  Meeting all;
  std::vector<Meeting> warps;
  std::vector<unsigned char> memory;
  std::map<void*, Barrier> barriers;
  int running;
  Fiber* current = nullptr;
};

thread_local Block* block;

void leave() { swapcontext(&block->current->context, &block->home); }

int running_in_warp(int warp) {
  int count = 0;
  for (int t = 32 * warp; t < 32 * (warp + 1); ++t) {
    if (t < block->launch->threads && !block->fibers[t].over) ++count;
  }
  return count;
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
  block->current->over = true;
  --block->running;
  leave();
}

void run_block(Block& self) {
  block = &self;
  self.fibers = std::vector<Fiber>(self.launch->threads);
  self.warps = std::vector<Meeting>((self.launch->threads + 31) / 32);
  self.memory.assign(self.launch->shared_bytes + 16, 0xff);
  self.running = self.launch->threads;
  for (int t = 0; t < self.launch->threads; ++t) {
    Fiber& fiber = self.fibers[t];
    fiber.place.x = t;
    fiber.stack.reset(new char[stack_bytes]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, begin, 0);
    self.ready.push_back(&fiber);
  }
  while (!self.ready.empty()) {
    self.current = self.ready.front();
    self.ready.pop_front();
    swapcontext(&self.home, &self.current->context);
  }
  if (self.running != 0) __builtin_trap();  // threads that wait for ever
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
  std::memcpy(self->given, value, bytes);
  const int expected = running_in_warp(warp);
  if (arrive(block->warps[warp], expected)) release(block->warps[warp]);
  leave();
  std::memcpy(value, block->fibers[32 * warp + lane].given, bytes);
  if (arrive(block->warps[warp], expected)) release(block->warps[warp]);
  leave();
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
