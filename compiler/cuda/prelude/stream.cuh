// A barrier in shared memory: a phase ends when so many have arrived and what
// was announced has been copied; `parity` says which phase is awaited.
typedef unsigned long long Word;
DEVICE void barrier_init(Word* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(barrier)),
               "r"(arrivals)
               : "memory");
}
DEVICE void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void barrier_arrive(Word* barrier) {
  asm volatile(
      "{\n.reg .b64 state;\n"
      "mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(
          (unsigned)__cvta_generic_to_shared(barrier))
      : "memory");
}
DEVICE void barrier_expect_bytes(Word* barrier, int bytes) {
  asm volatile(
      "{\n.reg .b64 state;\n"
      "mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(
          (unsigned)__cvta_generic_to_shared(barrier)),
      "r"(bytes)
      : "memory");
}
DEVICE void barrier_wait(Word* barrier, unsigned parity) {
  unsigned over;
  do {
    asm volatile(
        "{\n.reg .pred over;\n"
        "mbarrier.try_wait.parity.shared.b64 over, [%1], %2;\n"
        "selp.u32 %0, 1, 0, over;\n}"
        : "=r"(over)
        : "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(parity)
        : "memory");
  } while (!over);
}
// Has the memory copy a multiple of 16 bytes, and arrive when it is done.
DEVICE void copy_bulk(void* to, const void* from, int bytes, Word* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global"
      ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          (unsigned)__cvta_generic_to_shared(to)),
      "l"(from), "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(barrier))
      : "memory");
}
// What was read stays before what the memory copies there next: an arrival by
// itself overtakes reads that have not come yet.
DEVICE void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Blocks that split a row exchange partials in messages of three words, tagged
// with the row's number. One 16-byte access writes or reads a message whole.
struct alignas(16) PartialMessage {
  unsigned row;
  unsigned words[3];
};
DEVICE void store_message(PartialMessage* to, PartialMessage message) {
  asm volatile(
      "{\n.reg .b64 low, high;\n.reg .b128 message;\n"
      "mov.b64 low, {%1, %2};\nmov.b64 high, {%3, %4};\n"
      "mov.b128 message, {low, high};\n"
      "st.relaxed.gpu.global.b128 [%0], message;\n}" ::"l"(to),
      "r"(message.row), "r"(message.words[0]), "r"(message.words[1]),
      "r"(message.words[2])
      : "memory");
}
DEVICE PartialMessage load_message(const PartialMessage* from) {
  PartialMessage message;
  asm volatile(
      "{\n.reg .b64 low, high;\n.reg .b128 message;\n"
      "ld.relaxed.gpu.global.b128 message, [%4];\n"
      "mov.b128 {low, high}, message;\n"
      "mov.b64 {%0, %1}, low;\nmov.b64 {%2, %3}, high;\n}"
      : "=r"(message.row), "=r"(message.words[0]), "=r"(message.words[1]),
        "=r"(message.words[2])
      : "l"(from)
      : "memory");
  return message;
}

// A warp's position in a ring of SLOTS.
template <int SLOTS>
struct RingPosition {
  int slot = 0;
  unsigned round = 0;
  DEVICE void next() {
    if (++slot == SLOTS) {
      slot = 0;
      ++round;
    }
  }
};
// A ring of shared-memory slots: which are full, and which all CONSUMERS warps
// have released.
template <int SLOTS, int CONSUMERS>
struct Ring {
  Word full[SLOTS];
  Word released[SLOTS];
  DEVICE void init() {
    for (int i = 0; i < SLOTS; ++i) {
      barrier_init(full + i, 1);
      barrier_init(released + i, CONSUMERS);
    }
  }
  // Producer: waits until the slot is free, and announces a copy of `bytes`.
  DEVICE void acquire(RingPosition<SLOTS> position, int bytes) {
    if (position.round > 0) {
      barrier_wait(released + position.slot, (position.round - 1) % 2);
    }
    barrier_expect_bytes(full + position.slot, bytes);
  }
  DEVICE void wait_full(RingPosition<SLOTS> position) {
    barrier_wait(full + position.slot, position.round % 2);
  }
  DEVICE void release(RingPosition<SLOTS> position) {
    fence_async_proxy();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(released + position.slot);
  }
};
// Combines partials of a row over the REDUCERS warps of each of B blocks, with
// up to N rows in flight. Blocks exchange them through global memory, whose
// tags are zero at first; row `i` is the i-th of this group of blocks.
template <class F, int REDUCERS, int B, int N>
struct PartialExchange {
  using Value = typename F::Value;
  static constexpr int messages = (sizeof(Value) + 11) / 12;
  static constexpr int each = (B + 31) / 32;
  static constexpr int lanes = REDUCERS > 8   ? 16
                               : REDUCERS > 4 ? 8
                               : REDUCERS > 2 ? 4
                                              : REDUCERS;
  static_assert(REDUCERS <= 16, "half a warp folds their partials");
  Value parts[N][REDUCERS];
  Value wholes[N];
  Word folded[N];
  Word known[N];
  DEVICE void init() {
    for (int i = 0; i < N; ++i) {
      barrier_init(folded + i, REDUCERS);
      barrier_init(known + i, 1);
    }
  }
  // Deposits the partial of reduction warp `warp`.
  DEVICE void fold(Value value, int i, int warp) {
    value = fold_warp<F, 32>(value);
    if (threadIdx.x % 32 != 0) return;
    parts[i % N][warp] = value;
    barrier_arrive(folded + i % N);
  }
  // The publisher warp: this block's partial, to the other blocks.
  DEVICE void publish(PartialMessage* memory, int rank, int i) {
    barrier_wait(folded + i % N, i / N % 2);
    const int lane = threadIdx.x % lanes;
    const Value value =
        fold_warp<F, lanes>(lane < REDUCERS ? parts[i % N][lane] : F::none());
    if (threadIdx.x % 32 != 0) return;
    unsigned words[messages * 3] = {};
    memcpy(words, &value, sizeof(Value));
#pragma unroll
    for (int n = 0; n < messages; ++n) {
      store_message(
          memory + (i % N * B + rank) * messages + n,
          {i + 1u, {words[n * 3], words[n * 3 + 1], words[n * 3 + 2]}});
    }
  }
  // The gather warp: polls the partials of all blocks, and polls again only for
  // those that have not arrived, since all blocks read the same few lines.
  DEVICE void gather(const PartialMessage* memory, int i) {
    barrier_wait(folded + i % N, i / N % 2);
    const int lane = threadIdx.x % 32;
    const PartialMessage* from = memory + i % N * B * messages;
    PartialMessage received[each * messages] = {};
    bool complete;
    do {
#pragma unroll
      for (int n = 0; n < each * messages; ++n) {
        const int block = n / messages * 32 + lane;
        if (block < B && received[n].row != i + 1u) {
          received[n] = load_message(from + block * messages + n % messages);
        }
      }
      complete = true;
#pragma unroll
      for (int n = 0; n < each * messages; ++n) {
        const bool is_there = received[n].row == i + 1u;
        if (n / messages * 32 + lane < B && !is_there) complete = false;
      }
    } while (!complete);
    Value partials[each];
#pragma unroll
    for (int k = 0; k < each; ++k) {
      unsigned words[messages * 3];
#pragma unroll
      for (int w = 0; w < messages * 3; ++w) {
        words[w] = received[k * messages + w / 3].words[w % 3];
      }
      partials[k] = F::none();
      if (k * 32 + lane < B) memcpy(partials + k, words, sizeof(Value));
    }
    const Value all = fold_warp<F, 32>(fold_lanes<F, each>(partials));
    if (lane != 0) return;
    wholes[i % N] = all;
    barrier_arrive(known + i % N);
  }
  DEVICE Value whole(int i) {
    barrier_wait(known + i % N, i / N % 2);
    return wholes[i % N];
  }
};
