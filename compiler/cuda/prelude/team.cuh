// G blocks that all run, through memory: each has room for its part and
// counts those that came. `goal`: how many must have come.
struct Team {
  unsigned* count;
  unsigned goal;
  int rank;
  int parity;
};
DEVICE void sync_team(unsigned* count, unsigned goal) {
  unsigned came;
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count)
               : "memory");
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(came)
                 : "l"(count)
                 : "memory");
  } while (came < goal);
}
template <class F, int T, int G>
DEVICE typename F::Value fold_team(typename F::Value value, Team& team,
                                   void* memory) {
  using Value = typename F::Value;
  Value* parts = static_cast<Value*>(memory);
  value = fold_block<F, T>(value);
  team.parity ^= 1;
  team.goal += G;
  parts += team.parity * G;
  if (threadIdx.x == 0) {
    parts[team.rank] = value;
    sync_team(team.count, team.goal);
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  value = F::none();
  for (int i = lane; i < G; i += 32) {
    Value part;
    unsigned* words = reinterpret_cast<unsigned*>(&part);
    const unsigned* from = reinterpret_cast<const unsigned*>(parts + i);
#pragma unroll
    for (int w = 0; w < (int)(sizeof(Value) / 4); ++w) {
      words[w] = __ldcg(from + w);
    }
    value = F::of(value, part);
  }
  return fold_warp<F, 32>(value);
}
