// Exclusive scan over the block's threads; `all` is the block's whole fold.
template <class F, int T>
DEVICE typename F::Value fold_before(typename F::Value own,
                                     typename F::Value& all) {
  using Value = typename F::Value;
  __shared__ Value parts[T / 32];
  const int lane = threadIdx.x % 32;
  Value upto = own;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const Value other = __shfl_up_sync(0xffffffffu, upto, far);
    if (lane >= far) upto = F::of(other, upto);
  }
  __syncthreads();  // the last fold's parts are still being read
  if (lane == 31) parts[threadIdx.x / 32] = upto;
  __syncthreads();
  Value before = F::none();
  all = F::none();
  for (int i = 0; i < T / 32; ++i) {
    if (i == threadIdx.x / 32) before = all;
    all = F::of(all, parts[i]);
  }
  const Value left = __shfl_up_sync(0xffffffffu, upto, 1);
  return lane == 0 ? before : F::of(before, left);
}
