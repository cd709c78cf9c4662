DEVICE void meet_cluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// Into the same place of another block's shared memory.
template <class V>
DEVICE void store_remote(V* to, int block, const V& value) {
  const unsigned* words = reinterpret_cast<const unsigned*>(&value);
  const unsigned here = (unsigned)__cvta_generic_to_shared(to);
#pragma unroll
  for (int i = 0; i < (int)(sizeof(V) / 4); ++i) {
    asm volatile(
        "{\n.reg .u32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "st.shared::cluster.u32 [there], %2;\n}" ::"r"(here + 4 * i),
        "r"(block), "r"(words[i])
        : "memory");
  }
}
// Over the G blocks of the cluster. Two sets of parts take turns, so that one
// meeting is enough: who writes a set has met all since it was read.
template <class F, int T, int G>
DEVICE typename F::Value fold_cluster(typename F::Value value, int rank,
                                      int& turn) {
  __shared__ typename F::Value parts[2][G];
  value = fold_block<F, T>(value);
  turn ^= 1;
  if (threadIdx.x < G) store_remote(&parts[turn][rank], threadIdx.x, value);
  meet_cluster();
  value = parts[turn][0];
#pragma unroll
  for (int i = 1; i < G; ++i) value = F::of(value, parts[turn][i]);
  return value;
}
