DEVICE void sync_cluster() {
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
// Reduces over the G blocks of the cluster. The partials are double-buffered,
// so that one barrier a fold suffices: a buffer is written again only after a
// barrier that follows its last read.
template <class F, int T, int G>
DEVICE typename F::Value fold_cluster(typename F::Value value, int rank,
                                      int& parity) {
  __shared__ typename F::Value parts[2][G];
  value = fold_block<F, T>(value);
  parity ^= 1;
  if (threadIdx.x < G) store_remote(&parts[parity][rank], threadIdx.x, value);
  sync_cluster();
  value = parts[parity][0];
#pragma unroll
  for (int i = 1; i < G; ++i) value = F::of(value, parts[parity][i]);
  return value;
}
