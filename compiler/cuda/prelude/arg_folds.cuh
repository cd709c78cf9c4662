// The best value with its place; the first of equals wins.
template <class T>
struct Best {
  T value;
  int place;
};
template <class T>
DEVICE Best<T> of_neighbour(Best<T> best, int mask) {
  return {__shfl_xor_sync(0xffffffffu, best.value, mask),
          __shfl_xor_sync(0xffffffffu, best.place, mask)};
}
template <class T>
DEVICE bool equal(T a, T b) {
  return a == b || (a != a && b != b);
}
template <class T>
struct ArgMax {
  using Value = Best<T>;
  static DEVICE Value none() { return {least_of<T>(), 2147483647}; }
  // Where what comes lies behind what came.
  static DEVICE Value next(Value a, T value, int place) {
    const bool second =
        a.value == a.value && (!(value <= a.value) || a.place == 2147483647);
    return {second ? value : a.value, second ? place : a.place};
  }
  static DEVICE Value of(Value a, Value b) {
    const bool second = equal(a.value, b.value) ? b.place < a.place
                        : a.value != a.value    ? false
                                                : !(b.value < a.value);
    return second ? b : a;
  }
};
template <class T>
struct ArgMin {
  using Value = Best<T>;
  static DEVICE Value none() { return {most_of<T>(), 2147483647}; }
  static DEVICE Value next(Value a, T value, int place) {
    const bool second =
        a.value == a.value && (!(value >= a.value) || a.place == 2147483647);
    return {second ? value : a.value, second ? place : a.place};
  }
  static DEVICE Value of(Value a, Value b) {
    const bool second = equal(a.value, b.value) ? b.place < a.place
                        : a.value != a.value    ? false
                                                : !(b.value > a.value);
    return second ? b : a;
  }
};
