// Prelude: rows that stream through shared memory. Warps have parts of their
// own: one has the memory copy, some fold, some store; barriers in shared
// memory tell them of each other, so that none waits for what it need not.
#include "compiler/cuda_prelude_text.hpp"

namespace weft {

const char* const cuda_stream =
    R"cu(// A barrier in shared memory: a phase ends when so many have arrived and what
// was announced has been copied; `parity` says which phase is awaited.
typedef unsigned long long Word;
DEVICE void barrier_begin(Word* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;"
               :: "r"((unsigned)__cvta_generic_to_shared(barrier)),
                  "r"(arrivals) : "memory");
}
DEVICE void barriers_begun() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void barrier_arrive(Word* barrier) {
  asm volatile("{\n.reg .b64 state;\n"
               "mbarrier.arrive.shared.b64 state, [%0];\n}"
               :: "r"((unsigned)__cvta_generic_to_shared(barrier)) : "memory");
}
DEVICE void barrier_announce(Word* barrier, int bytes) {
  asm volatile("{\n.reg .b64 state;\n"
               "mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}"
               :: "r"((unsigned)__cvta_generic_to_shared(barrier)), "r"(bytes)
               : "memory");
}
DEVICE void barrier_await(Word* barrier, unsigned parity) {
  unsigned over;
  do {
    asm volatile("{\n.reg .pred over;\n"
                 "mbarrier.try_wait.parity.shared.b64 over, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, over;\n}"
                 : "=r"(over)
                 : "r"((unsigned)__cvta_generic_to_shared(barrier)),
                   "r"(parity) : "memory");
  } while (!over);
}
// Has the memory copy a multiple of 16 bytes, and arrive when it is done.
DEVICE void copy_bulk(void* to, const void* from, int bytes, Word* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global"
               ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
                  "r"(bytes), "r"((unsigned)__cvta_generic_to_shared(barrier))
               : "memory");
}
// What was read stays before what the memory copies there next: an arrival by
// itself overtakes reads that have not come yet.
DEVICE void reads_done() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Half a word is what is told, the other half which row it is of: a word is
// written and read as one.
DEVICE void tell_word(Word* to, Word word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(to), "l"(word)
               : "memory");
}
DEVICE Word told_word(const Word* from) {
  Word word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
               : "=l"(word) : "l"(from) : "memory");
  return word;
}

// Where a walk over a ring of SLOTS stands.
template <int SLOTS>
struct Turn {
  int slot = 0;
  unsigned round = 0;
  DEVICE void next() {
    if (++slot == SLOTS) {
      slot = 0;
      ++round;
    }
  }
};
// Which slots are full, and which have been emptied by all STORING warps.
template <int SLOTS, int STORING>
struct Ring {
  Word full[SLOTS];
  Word emptied[SLOTS];
  DEVICE void begin() {
    for (int i = 0; i < SLOTS; ++i) {
      barrier_begin(full + i, 1);
      barrier_begin(emptied + i, STORING);
    }
  }
  // The slot is free, and that many bytes will come.
  DEVICE void announce(Turn<SLOTS> turn, int bytes) {
    if (turn.round > 0) {
      barrier_await(emptied + turn.slot, (turn.round - 1) % 2);
    }
    barrier_announce(full + turn.slot, bytes);
  }
  DEVICE void await(Turn<SLOTS> turn) {
    barrier_await(full + turn.slot, turn.round % 2);
  }
  DEVICE void empty(Turn<SLOTS> turn) {
    reads_done();
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(emptied + turn.slot);
  }
};
// What rows come to: FOLDING warps of each of B blocks have parts of it. N rows
// may be under way. Blocks tell each other through memory, which holds no row's
// number at first; row `i` is the i-th of this team.
template <class F, int FOLDING, int B, int N>
struct Gathering {
  using Value = typename F::Value;
  static constexpr int words = (sizeof(Value) + 3) / 4;
  static constexpr int each = (B + 31) / 32;
  static_assert(FOLDING <= 16, "half a warp folds what they leave");
  Value parts[N][FOLDING];
  Value wholes[N];
  Word folded[N];
  Word known[N];
  DEVICE void begin() {
    for (int i = 0; i < N; ++i) {
      barrier_begin(folded + i, FOLDING);
      barrier_begin(known + i, 1);
    }
  }
  // Each folding warp's part, by its number.
  DEVICE void fold(Value value, int i, int warp) {
    value = fold_warp<F, 32>(value);
    if (threadIdx.x % 32 != 0) return;
    parts[i % N][warp] = value;
    barrier_arrive(folded + i % N);
  }
  // One warp tells the other blocks what this one's come to.
  DEVICE void tell(Word* memory, int rank, int i) {
    barrier_await(folded + i % N, i / N % 2);
    const int lane = threadIdx.x % 32;
    const Value value = fold_warp<F, 16>(
        lane % 16 < FOLDING ? parts[i % N][lane % 16] : F::none());
    if (lane != 0) return;
    unsigned halves[words] = {};
    memcpy(halves, &value, sizeof(Value));
#pragma unroll
    for (int w = 0; w < words; ++w) {
      tell_word(memory + (i % N * B + rank) * words + w,
                (Word)(i + 1) << 32 | halves[w]);
    }
  }
  // One warp hears them all; who asks too early keeps the memory busy.
  DEVICE void hear(const Word* memory, int i) {
    barrier_await(folded + i % N, i / N % 2);
    const int lane = threadIdx.x % 32;
    const Word* from = memory + i % N * B * words;
    Word told[each][words];
    bool complete;
    do {
      complete = true;
#pragma unroll
      for (int k = 0; k < each * words; ++k) {
        const int block = k / words * 32 + lane;
        if (block >= B) continue;
        told[k / words][k % words] =
            told_word(from + block * words + k % words);
      }
#pragma unroll
      for (int k = 0; k < each * words; ++k) {
        const bool is_there =
            told[k / words][k % words] >> 32 == (unsigned)(i + 1);
        if (k / words * 32 + lane < B && !is_there) complete = false;
      }
    } while (!complete);
    Value all = F::none();
#pragma unroll
    for (int k = 0; k < each; ++k) {
      if (k * 32 + lane >= B) continue;
      unsigned halves[words];
#pragma unroll
      for (int w = 0; w < words; ++w) halves[w] = (unsigned)told[k][w];
      Value part;
      memcpy(&part, halves, sizeof(Value));
      all = F::of(all, part);
    }
    all = fold_warp<F, 32>(all);
    if (lane != 0) return;
    wholes[i % N] = all;
    barrier_arrive(known + i % N);
  }
  DEVICE Value whole(int i) {
    barrier_await(known + i % N, i / N % 2);
    return wholes[i % N];
  }
};

)cu";

}  // namespace weft
