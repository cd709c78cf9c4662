// Reduces each lane over the R threads that share its points; these threads are
// ACROSS apart.
template <class F, int N, int R, int ACROSS>
DEVICE void fold_down(typename F::Value (&lanes)[N]) {
  __shared__ typename F::Value parts[R][ACROSS][N];
  const int across = threadIdx.x % ACROSS;
  __syncthreads();  // the last fold's parts are still being read
#pragma unroll
  for (int l = 0; l < N; ++l) {
    parts[threadIdx.x / ACROSS][across][l] = lanes[l];
  }
  __syncthreads();
#pragma unroll
  for (int l = 0; l < N; ++l) lanes[l] = parts[0][across][l];
  for (int i = 1; i < R; ++i) {
#pragma unroll
    for (int l = 0; l < N; ++l) {
      lanes[l] = F::of(lanes[l], parts[i][across][l]);
    }
  }
}
