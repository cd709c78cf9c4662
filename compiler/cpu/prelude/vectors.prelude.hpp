
#define INLINE inline __attribute__((always_inline))
#define BODY __attribute__((always_inline))

// --- Vectors of W elements. A truth value is a lane of -1 or 0 in an i32v.
template <class T>
struct Vector {
  typedef T type __attribute__((vector_size(sizeof(T) * W)));
};
template <class T>
using vec = typename Vector<T>::type;
using f32v = vec<float>;
using f64v = vec<double>;
using i32v = vec<int32_t>;
using i64v = vec<int64_t>;
using mask = i32v;
template <class V>
using element = std::decay_t<decltype(std::declval<V>()[0])>;
template <class T>
constexpr bool is_real = std::is_same_v<T, float> || std::is_same_v<T, double>;

// What a compiler may not fuse into another operation: the framework rounds the
// result of each of the model's operators. Within one (a fold's products, a
// polynomial) it may.
// An `or` with a zero that it does not know to be one costs a cycle at
// most; GCC 12 lowers __builtin_assoc_barrier of a vector to one for each lane,
// which made sums of squares four times as slow (2026-11-26, AVX-512).
volatile const int32_t zero_in_memory = 0;
const int32_t opaque_zero = zero_in_memory;
template <class V>
INLINE V rounded(V value) {
  if constexpr (!kFreeRounding && is_real<element<V>>) {
    using Bits = std::conditional_t<sizeof(element<V>) == sizeof(int32_t),
                                    int32_t, int64_t>;
    return (V)((vec<Bits>)value |
               (vec<Bits>{} + static_cast<Bits>(opaque_zero)));
  }
  return value;
}
template <class V>
INLINE V add(V a, V b) {
  return rounded(a) + rounded(b);
}
template <class V>
INLINE V sub(V a, V b) {
  return rounded(a) - rounded(b);
}
template <class V>
INLINE V mul(V a, V b) {
  return rounded(a * b);
}

template <class T>
INLINE vec<T> splat(T value) {
  return value - vec<T>{};
}
template <class V, class U>
INLINE V convert(U value) {
  return __builtin_convertvector(value, V);
}
template <class M>
INLINE mask narrow(M wide) {
  if constexpr (std::is_same_v<M, mask>)
    return wide;
  else
    return convert<mask>(wide);
}
template <class V>
INLINE V select(mask m, V yes, V no) {
  if constexpr (sizeof(element<V>) == 4)
    return m ? yes : no;
  else if constexpr (sizeof(element<V>) == 2)
    return convert<vec<int16_t>>(m) ? yes : no;
  else
    return convert<i64v>(m) ? yes : no;
}
INLINE i32v lane_numbers() {
  i32v v;
  for (int l = 0; l < W; ++l) v[l] = l;
  return v;
}
INLINE i64v positions(int64_t base, int64_t step) {
  return convert<i64v>(lane_numbers()) * step + base;
}
INLINE i32v small_positions(int64_t base, int32_t step) {
  return lane_numbers() * step + static_cast<int32_t>(base);
}
template <class L, class At>
INLINE i64v each_lane(L lanes, At at) {
  i64v v{};
  for (int l = 0; l < lanes.count; ++l) v[l] = at(l);
  return v;
}

// --- Which lanes of a vector count: all, or the first few.
struct Full {
  static constexpr int64_t count = W;
};
struct Part {
  int64_t count;
};
INLINE mask active(Part lanes) {
  return lane_numbers() < static_cast<int32_t>(lanes.count);
}
template <class V>
INLINE V keep(Full, V value, V) {
  return value;
}
template <class V>
INLINE V keep(Part lanes, V value, V old) {
  return select(active(lanes), value, old);
}

// --- Memory. Bytes hold truth values as 0 and 1; halves are loaded and stored
// as their bits.
template <class T>
struct Stored {
  using lane = T;
};
template <>
struct Stored<uint8_t> {
  using lane = int32_t;
};
template <class T>
using lanes_of = vec<typename Stored<T>::lane>;
template <class T>
INLINE lanes_of<T> load(const T* from, Full) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    vec<uint8_t> bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    return convert<i32v>(bytes) != 0;
  } else {
    vec<T> value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
}
template <class T>
INLINE lanes_of<T> load(const T* from, Part lanes) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float> && W == 16) {
    return (f32v)_mm512_maskz_loadu_ps((1u << lanes.count) - 1, from);
  }
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_same_v<T, uint16_t> && W == 16) {
    return (vec<T>)_mm256_maskz_loadu_epi16((1u << lanes.count) - 1, from);
  }
#endif
  lanes_of<T> value{};
  for (int l = 0; l < lanes.count; ++l) {
    if constexpr (std::is_same_v<T, uint8_t>)
      value[l] = from[l] ? -1 : 0;
    else
      value[l] = from[l];
  }
  return value;
}
template <class T, class L, class At>
INLINE lanes_of<T> gather(const T* from, L lanes, At at) {
  lanes_of<T> value{};
  for (int l = 0; l < lanes.count; ++l) {
    if constexpr (std::is_same_v<T, uint8_t>)
      value[l] = from[at(l)] ? -1 : 0;
    else
      value[l] = from[at(l)];
  }
  return value;
}
template <class T>
INLINE lanes_of<T> broadcast(const T* from) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    return splat<int32_t>(*from ? -1 : 0);
  } else {
    return splat<T>(*from);
  }
}
// Where the guard is false, memory is not touched: the place may be outside.
template <class T, class L, class At>
INLINE lanes_of<T> gather_where(const T* from, L lanes, mask guard, At at,
                                i64v place) {
  lanes_of<T> value{};
  for (int l = 0; l < lanes.count; ++l) {
    if (!guard[l]) continue;
    if constexpr (std::is_same_v<T, uint8_t>) {
      value[l] = from[at(l) + place[l]] ? -1 : 0;
    } else {
      value[l] = from[at(l) + place[l]];
    }
  }
  return value;
}
INLINE bool any(mask m) {
  int32_t all = 0;
  for (int l = 0; l < W; ++l) all |= m[l];
  return all != 0;
}
// The truth of low <= index < high. One outside is noted: the framework raises.
INLINE mask in_bounds(int64_t* outside, i64v index, i64v low, i64v high) {
  const mask inside = narrow(index >= low) & narrow(index < high);
  if (any(~inside)) __atomic_store_n(outside, 1, __ATOMIC_RELAXED);
  return inside;
}
template <class T, class L>
INLINE lanes_of<T> load_where(const T* from, int64_t at, L lanes, mask guard) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float> && W == 16) {
    const auto wanted = _mm512_test_epi32_mask((__m512i)guard, (__m512i)guard);
    return (f32v)_mm512_maskz_loadu_ps(wanted & ((1u << lanes.count) - 1),
                                       from + at);
  }
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_same_v<T, uint16_t> && W == 16) {
    const auto wanted = _mm512_test_epi32_mask((__m512i)guard, (__m512i)guard);
    return (vec<T>)_mm256_maskz_loadu_epi16(wanted & ((1u << lanes.count) - 1),
                                            from + at);
  }
#endif
  if (!any(keep(lanes, ~guard, mask{}))) return load(from + at, lanes);
  return gather_where(
      from, lanes, guard, [=](int64_t l) { return at + l; }, i64v{});
}
template <class T, class L>
INLINE lanes_of<T> broadcast_where(const T* from, int64_t at, L lanes,
                                   mask guard) {
  if (!any(keep(lanes, guard, mask{}))) return lanes_of<T>{};
  return select(guard, broadcast(from + at), lanes_of<T>{});
}
template <class T>
INLINE T stored(typename Stored<T>::lane lane) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return lane != 0;
  else
    return lane;
}
template <class T, bool kPast = kStream>
INLINE void store(T* to, lanes_of<T> value, Full) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    const vec<uint8_t> bytes = convert<vec<uint8_t>>(value & 1);
    std::memcpy(to, &bytes, sizeof bytes);
    return;
  } else {
#if defined(__AVX512F__)
    if constexpr (kPast && std::is_same_v<T, float> && W == 16) {
      if ((reinterpret_cast<uintptr_t>(to) & 63) == 0) {
        _mm512_stream_ps(to, (__m512)value);
        return;
      }
    }
    if constexpr (kPast && std::is_same_v<T, uint16_t> && W == 16) {
      if ((reinterpret_cast<uintptr_t>(to) & 31) == 0) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)value);
        return;
      }
    }
#endif
    std::memcpy(to, &value, sizeof value);
  }
}
template <class T, bool kPast = kStream>
INLINE void store(T* to, lanes_of<T> value, Part lanes) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float> && W == 16) {
    _mm512_mask_storeu_ps(to, (1u << lanes.count) - 1, (__m512)value);
    return;
  }
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_same_v<T, uint16_t> && W == 16) {
    _mm256_mask_storeu_epi16(to, (1u << lanes.count) - 1, (__m256i)value);
    return;
  }
#endif
  for (int l = 0; l < lanes.count; ++l) to[l] = stored<T>(value[l]);
}
template <class T, class L, class At>
INLINE void scatter(T* to, lanes_of<T> value, L lanes, At at) {
  for (int l = 0; l < lanes.count; ++l) to[at(l)] = stored<T>(value[l]);
}

// --- Additions in place, to elements moved by `place`; none where it is < 0.
template <class T, class L>
INLINE void add_row(T* to, i64v place, lanes_of<T> value, L lanes) {
  if (place[0] < 0) return;
  to += place[0];
  store<T, false>(to, load(to, lanes) + value, lanes);
}
// Lane after lane: several may mean one element.
template <class T, class L, class At>
INLINE void add_lanes(T* to, i64v place, lanes_of<T> value, L lanes, At at) {
  for (int l = 0; l < lanes.count; ++l) {
    if (place[l] >= 0) to[at(l) + place[l]] += value[l];
  }
}

// --- Lanes that lie in memory from the last to the first.
template <class V>
INLINE V reversed(V value) {
  V result;
#pragma GCC unroll 16
  for (int l = 0; l < W; ++l) result[l] = value[W - 1 - l];
  return result;
}
template <class T, class L>
INLINE lanes_of<T> load_down(const T* from, L lanes) {
  if constexpr (std::is_same_v<L, Full>) {
    return reversed(load(from - (W - 1), lanes));
  } else {
    return gather(from, lanes, [](int64_t l) { return -l; });
  }
}
template <class T, class L>
INLINE void store_down(T* to, lanes_of<T> value, L lanes) {
  if constexpr (std::is_same_v<L, Full>) {
    store(to - (W - 1), reversed(value), lanes);
  } else {
    scatter(to, value, lanes, [](int64_t l) { return -l; });
  }
}

// --- Squares of W by W elements, turned so that lanes become rows.
template <int S, class V>
INLINE void turn_step(V* rows) {
  constexpr int kLog = S;
  using Lane = std::conditional_t<
      sizeof(element<V>) == 2, int16_t,
      std::conditional_t<sizeof(element<V>) == 4, int32_t, int64_t>>;
  const auto lane = convert<vec<Lane>>(lane_numbers());
  const auto high = (lane & kLog) != 0;
  const auto low_pick = high ? lane - kLog + W : lane;
  const auto high_pick = high ? lane + W : lane + kLog;
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i) {
    if (i & S) continue;
    const V a = rows[i];
    const V b = rows[i + S];
    rows[i] = __builtin_shuffle(a, b, low_pick);
    rows[i + S] = __builtin_shuffle(a, b, high_pick);
  }
}
// rows[r][l] = from[l * step + r], for the first of both that count.
template <class T, class L>
INLINE void turned(lanes_of<T>* rows, const T* from, int64_t step, L lanes,
                   int64_t count) {
#pragma GCC unroll 16
  for (int l = 0; l < W; ++l) {
    if (l >= lanes.count)
      rows[l] = lanes_of<T>{};
    else if (count == W)
      rows[l] = load(from + l * step, Full{});
    else
      rows[l] = load(from + l * step, Part{count});
  }
  turn_step<1>(rows);
  turn_step<2>(rows);
  if constexpr (W > 4) turn_step<4>(rows);
  if constexpr (W > 8) turn_step<8>(rows);
}

// --- Loops over lanes, U vectors at a time; `body(i, lanes, slot)`.
template <class F, int... S>
INLINE void unrolled(int64_t i, F& body, std::integer_sequence<int, S...>) {
  (body(i + S * W, Full{}, std::integral_constant<int, S>{}), ...);
}
template <int U, class F>
INLINE void for_lanes(int64_t from, int64_t to, F body) {
  int64_t i = from;
  for (; i + U * W <= to; i += U * W) {
    unrolled(i, body, std::make_integer_sequence<int, U>{});
  }
  if constexpr (U > 1) {
    for (; i + W <= to; i += W) {
      body(i, Full{}, std::integral_constant<int, 0>{});
    }
  }
  if (i < to) body(i, Part{to - i}, std::integral_constant<int, 0>{});
}

// --- Memory for what one loop nest leaves to the next.
template <class T>
struct Scratch {
  explicit Scratch(int64_t count)
      : data(static_cast<T*>(
            std::aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64))) {
    if (data == nullptr) std::abort();
  }
  ~Scratch() { std::free(data); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* const data;
};
