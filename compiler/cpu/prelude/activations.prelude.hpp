
// --- Activations.
template <class V>
INLINE V clamped(V v, double low, double high) {
  return minimum(maximum(v, number<V>(low)), number<V>(high));
}
template <class V>
INLINE V silu(V x) {
  return x / (number<V>(1) + exp(-x));
}
template <class V>
INLINE V gelu(V x) {
  const V half = number<V>(0.5) * x;
  return half * (number<V>(1) + erf(x * number<V>(0.70710678118654752440)));
}
template <class V>
INLINE V gelu_tanh(V x) {  // x sigmoid(2 u): 0.5 x (1 + tanh(u)) cancels
  const V cube = x * x * x;
  const V inner =
      number<V>(-1.5957691216057308) * (x + number<V>(0.044715) * cube);
  return x / (number<V>(1) + exp(inner));
}
template <class V>
INLINE V softplus(V x, V beta, V threshold) {
  const V scaled = x * beta;
  return select(narrow(scaled > threshold), x, log1p(exp(scaled)) / beta);
}
template <class V>
INLINE V mish(V x) {
  return x * tanh(softplus(x, number<V>(1), number<V>(20)));
}
template <class V>
INLINE V log_sigmoid(V x) {
  return minimum(x, V{}) - log1p(exp(-abs(x)));
}
template <class V>
INLINE V relu6(V x) {
  return clamped(x, 0, 6);
}
template <class V>
INLINE V hardsigmoid(V x) {
  return clamped(x + number<V>(3), 0, 6) / number<V>(6);
}
template <class V>
INLINE V hardswish(V x) {
  return x * clamped(x + number<V>(3), 0, 6) / number<V>(6);
}
template <class V>
INLINE V leaky_relu(V x, V slope) {
  return select(narrow(x > 0), x, x * slope);
}
template <class V>
INLINE V elu(V x, V alpha, V scale, V input_scale) {
  return select(narrow(x > 0), x * scale,
                expm1(x * input_scale) * alpha * scale);
}
template <class V>
INLINE V selu(V x) {
  return elu(x, number<V>(1.6732632423543772848),
             number<V>(1.0507009873554804934), number<V>(1));
}
template <class V>
INLINE V threshold(V x, V limit, V value) {
  return select(narrow(x <= limit), value, x);
}
template <class V>
INLINE V softshrink(V x, V lambda) {
  const V cut = select(narrow(x < -lambda), x + lambda, x * number<V>(0));
  return select(narrow(x > lambda), x - lambda, cut);
}
template <class V>
INLINE V hardshrink(V x, V lambda) {
  return select(narrow(abs(x) <= lambda), V{}, x);
}
template <class V>
INLINE V xlogy(V x, V y) {
  const V product = select(narrow(x == 0), V{}, x * log(y));
  return select(unordered(y), y, product);
}
