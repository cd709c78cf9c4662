// Runs printed CUDA kernels on the processor, for tests: what a source needs of
// CUDA, with a thread of the system for each block and a fiber for each of its
// threads. Copies past the registers come as late as they may.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
// A block has a thread of the system to itself, so this is its own.
#define __shared__ static thread_local
#define __align__(bytes) alignas(bytes)
#define __restrict__

namespace host {

struct Place {
  unsigned x;
};
struct Launch {
  int blocks;
  int threads;
  int cluster;  ///< blocks that meet
  bool all;     ///< all blocks run at once
  long shared_bytes;
};

const Place& thread_place();
const Place& block_place();
void meet_block();
void sync_cluster();
void yield_block();
/// Lets the block's other threads go on, and other blocks.
void yield_thread();
/// `bytes` of what the warp's thread number `lane` gave in the same call.
void exchange(void* value, std::size_t bytes, int lane);
int lane();
unsigned char* dynamic_shared();
/// Where the caller's anchor is, in a block; and its own is there.
char* anchor_of(int block);
void set_anchor(char* anchor);
void copy_async(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_copies(int pending);
/// A barrier of the block, known by where it lies.
void barrier_init(void* barrier, int arrivals);
void barrier_arrive(void* barrier, int bytes);
void barrier_wait(void* barrier, unsigned parity);
void copy_bulk(void* to, const void* from, int bytes, void* barrier);
void run(const Launch& launch, void (*body)(void*), void* context);

/// A block's shared memory lies at the same distance from its anchor, which
/// must be this library's own.
static thread_local char anchor;

template <class... A, std::size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  set_anchor(&anchor);
  kernel(static_cast<A>(arguments[I])...);
}
template <class... A>
void launch(void (*kernel)(A...), const Launch& how, void** arguments) {
  std::pair<void (*)(A...), void**> context = {kernel, arguments};
  run(
      how,
      [](void* given) {
        auto& [function, values] = *static_cast<decltype(&context)>(given);
        call(function, values, std::index_sequence_for<A...>());
      },
      &context);
}

}  // namespace host

#define threadIdx host::thread_place()
#define blockIdx host::block_place()
inline void __syncthreads() { host::meet_block(); }
inline void __syncwarp() {
  int nothing = 0;
  host::exchange(&nothing, sizeof nothing, host::lane());
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  host::exchange(&value, sizeof value, from);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  host::exchange(&value, sizeof value, host::lane() ^ mask);
  return value;
}
template <class T>
T __shfl_up_sync(unsigned, T value, int far) {
  const int from = host::lane() - far;
  host::exchange(&value, sizeof value, from < 0 ? host::lane() : from);
  return value;
}
inline float __int_as_float(int bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}
inline int __float_as_int(float number) {
  int bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}
/// How often a kernel has asserted what did not hold.
extern "C" int host_assertions;
inline void __assertfail(const char*, const char*, unsigned, const char*,
                         std::size_t) {
  ++host_assertions;
}
/// As it is, in a register: no compiler fuses across it. (So the device's own
/// leaves these alone: what is given to them is rounded, and what they give.)
template <class T>
T kept(T number) {
#ifdef __x86_64__
  asm("" : "+x"(number));
#else
  asm("" : "+w"(number));
#endif
  return number;
}
inline float __fadd_rn(float a, float b) { return kept(kept(a) + kept(b)); }
inline float __fsub_rn(float a, float b) { return kept(kept(a) - kept(b)); }
inline float __fmul_rn(float a, float b) { return kept(kept(a) * kept(b)); }
inline double __dadd_rn(double a, double b) { return kept(kept(a) + kept(b)); }
inline double __dsub_rn(double a, double b) { return kept(kept(a) - kept(b)); }
inline double __dmul_rn(double a, double b) { return kept(kept(a) * kept(b)); }
inline float __fdividef(float a, float b) { return a / b; }
template <class T>
T __ldcg(const T* from) {
  return *from;
}

// The parts of the prelude that are written for the device alone.
template <int BYTES, class T>
void copy_async(void* to, const T* from) {
  host::copy_async(to, from, BYTES);
}
template <class P>
P load_shared(const P* from) {
  return *from;
}
template <class T>
void prefetch_line(const T* from) {
  static_cast<void>(*static_cast<const volatile T*>(from));
}
inline void commit_copies() { host::commit_copies(); }
inline void wait_copies(int pending) { host::wait_copies(pending); }
inline void sync_cluster() { host::sync_cluster(); }
template <class V>
void store_remote(V* to, int block, const V& value) {
  const auto distance = reinterpret_cast<char*>(to) - &host::anchor;
  std::memcpy(host::anchor_of(block) + distance, &value, sizeof value);
}
inline void sync_team(unsigned* count, unsigned goal) {
  __atomic_fetch_add(count, 1, __ATOMIC_RELEASE);
  while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < goal) host::yield_block();
}
inline void barrier_init(unsigned long long* barrier, int arrivals) {
  host::barrier_init(barrier, arrivals);
}
inline void fence_barrier_init() {}
inline void fence_async_proxy() {}
inline void barrier_arrive(unsigned long long* barrier) {
  host::barrier_arrive(barrier, 0);
}
inline void barrier_expect_bytes(unsigned long long* barrier, int bytes) {
  host::barrier_arrive(barrier, bytes);
}
inline void barrier_wait(unsigned long long* barrier, unsigned parity) {
  host::barrier_wait(barrier, parity);
}
inline void copy_bulk(void* to, const void* from, int bytes,
                      unsigned long long* barrier) {
  host::copy_bulk(to, from, bytes, barrier);
}
// The row last, and first: who finds it finds what was written before.
template <class N>
void store_message(N* to, N note) {
  std::memcpy(to->words, note.words, sizeof note.words);
  __atomic_store_n(&to->row, note.row, __ATOMIC_RELEASE);
}
template <class N>
N load_message(const N* from) {
  host::yield_thread();
  N note;
  note.row = __atomic_load_n(&from->row, __ATOMIC_ACQUIRE);
  std::memcpy(note.words, from->words, sizeof note.words);
  return note;
}
inline float float_of_half(unsigned short bits) {
  _Float16 number;
  std::memcpy(&number, &bits, sizeof bits);
  return number;
}
inline unsigned half_of_float(float value) {
  const _Float16 number = static_cast<_Float16>(value);
  unsigned short bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}
inline float hardware_exp2(float x) {
  return x < -126 ? 0 : std::exp2(x);  // it flushes what is denormal
}
inline float hardware_exp2_whole(float x) { return std::exp2(x); }
inline float hardware_log2(float x) { return std::log2(x); }
inline float larger(float a, float b) { return a > b || a != a ? a : b; }
inline float smaller(float a, float b) { return a < b || a != a ? a : b; }
