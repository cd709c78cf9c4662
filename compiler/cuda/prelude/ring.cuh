// Asynchronous copies to shared memory, in groups that complete in order. A
// thread reads only what it copied itself. The statements are volatile, which
// keeps their order, and have no memory clobber, so that nothing else waits.
template <int BYTES, class T>
DEVICE void copy_async(void* to, const T* from) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place),
                 "l"(from));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place),
                 "l"(from), "n"(BYTES));
  }
}
// The same, where only lanes from `first` on that are in [0, count) exist.
template <int N, class P, class T, class I>
DEVICE void copy_masked(P* to, const T* from, I first, I count) {
  if (first >= 0 && first <= count - N) {
    return copy_async<sizeof(P)>(to, from);
  }
#pragma unroll
  for (int l = 0; l < N; ++l) {
    const bool exists = first + l >= 0 && first + l < count;
    if (exists) copy_async<sizeof(T)>(&to->at[l], from + l);
  }
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;"); }
// All groups have come but so many; a constant once loops are unrolled.
DEVICE void wait_copies(int pending) {
#define CASE(N)                                       \
  case N:                                             \
    asm volatile("cp.async.wait_group %0;" ::"n"(N)); \
    break;
#define CASES(N) CASE(N) CASE(N + 1) CASE(N + 2) CASE(N + 3)
  switch (pending) {
    CASES(0) CASES(4) CASES(8) CASES(12) CASES(16) CASES(20) CASES(24) CASES(28)
  }
#undef CASES
#undef CASE
}
template <class P>
DEVICE P load_shared(const P* from) {
  P vector;
  unsigned* words = reinterpret_cast<unsigned*>(&vector);
  const unsigned place = (unsigned)__cvta_generic_to_shared(from);
  if constexpr (sizeof(P) == 16) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]),
                   "=r"(words[3])
                 : "r"(place));
  } else if constexpr (sizeof(P) == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(words[0]), "=r"(words[1])
                 : "r"(place));
  } else {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[0]) : "r"(place));
  }
  return vector;
}
// Brings that line into the last cache.
template <class T>
DEVICE void prefetch_line(const T* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}
