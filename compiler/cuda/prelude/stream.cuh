// A barrier in shared memory: a phase ends when so many have arrived and what
// was announced has been copied; `parity` says which phase is awaited.
typedef unsigned long long Word;
DEVICE void barrier_begin(Word* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(
                   (unsigned)__cvta_generic_to_shared(barrier)),
               "r"(arrivals)
               : "memory");
}
DEVICE void barriers_begun() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void barrier_arrive(Word* barrier) {
  asm volatile(
      "{\n.reg .b64 state;\n"
      "mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(
          (unsigned)__cvta_generic_to_shared(barrier))
      : "memory");
}
DEVICE void barrier_announce(Word* barrier, int bytes) {
  asm volatile(
      "{\n.reg .b64 state;\n"
      "mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(
          (unsigned)__cvta_generic_to_shared(barrier)),
      "r"(bytes)
      : "memory");
}
DEVICE void barrier_await(Word* barrier, unsigned parity) {
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
DEVICE void reads_done() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// What blocks tell each other: three words, and which row they are of. A note
// is written and read as one.
struct alignas(16) Note {
  unsigned row;
  unsigned words[3];
};
DEVICE void tell_note(Note* to, Note note) {
  asm volatile(
      "{\n.reg .b64 low, high;\n.reg .b128 note;\n"
      "mov.b64 low, {%1, %2};\nmov.b64 high, {%3, %4};\n"
      "mov.b128 note, {low, high};\n"
      "st.relaxed.gpu.global.b128 [%0], note;\n}" ::"l"(to),
      "r"(note.row), "r"(note.words[0]), "r"(note.words[1]), "r"(note.words[2])
      : "memory");
}
DEVICE Note told_note(const Note* from) {
  Note note;
  asm volatile(
      "{\n.reg .b64 low, high;\n.reg .b128 note;\n"
      "ld.relaxed.gpu.global.b128 note, [%4];\n"
      "mov.b128 {low, high}, note;\n"
      "mov.b64 {%0, %1}, low;\nmov.b64 {%2, %3}, high;\n}"
      : "=r"(note.row), "=r"(note.words[0]), "=r"(note.words[1]),
        "=r"(note.words[2])
      : "l"(from)
      : "memory");
  return note;
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
// Which slots are full, and which have been emptied by all TAKING warps.
template <int SLOTS, int TAKING>
struct Ring {
  Word full[SLOTS];
  Word emptied[SLOTS];
  DEVICE void begin() {
    for (int i = 0; i < SLOTS; ++i) {
      barrier_begin(full + i, 1);
      barrier_begin(emptied + i, TAKING);
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
  static constexpr int notes = (sizeof(Value) + 11) / 12;
  static constexpr int each = (B + 31) / 32;
  static constexpr int lanes = FOLDING > 8   ? 16
                               : FOLDING > 4 ? 8
                               : FOLDING > 2 ? 4
                                             : FOLDING;
  static_assert(FOLDING <= 16, "half a warp folds what they leave, at most");
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
  DEVICE void tell(Note* memory, int rank, int i) {
    barrier_await(folded + i % N, i / N % 2);
    const int lane = threadIdx.x % lanes;
    const Value value =
        fold_warp<F, lanes>(lane < FOLDING ? parts[i % N][lane] : F::none());
    if (threadIdx.x % 32 != 0) return;
    unsigned words[notes * 3] = {};
    memcpy(words, &value, sizeof(Value));
#pragma unroll
    for (int n = 0; n < notes; ++n) {
      tell_note(memory + (i % N * B + rank) * notes + n,
                {i + 1u, {words[n * 3], words[n * 3 + 1], words[n * 3 + 2]}});
    }
  }
  // One warp hears them all, and asks again only for what was not there: all
  // blocks ask for the same few lines.
  DEVICE void hear(const Note* memory, int i) {
    barrier_await(folded + i % N, i / N % 2);
    const int lane = threadIdx.x % 32;
    const Note* from = memory + i % N * B * notes;
    Note told[each * notes] = {};
    bool complete;
    do {
#pragma unroll
      for (int n = 0; n < each * notes; ++n) {
        const int block = n / notes * 32 + lane;
        if (block < B && told[n].row != i + 1u) {
          told[n] = told_note(from + block * notes + n % notes);
        }
      }
      complete = true;
#pragma unroll
      for (int n = 0; n < each * notes; ++n) {
        const bool is_there = told[n].row == i + 1u;
        if (n / notes * 32 + lane < B && !is_there) complete = false;
      }
    } while (!complete);
    Value heard[each];
#pragma unroll
    for (int k = 0; k < each; ++k) {
      unsigned words[notes * 3];
#pragma unroll
      for (int w = 0; w < notes * 3; ++w) {
        words[w] = told[k * notes + w / 3].words[w % 3];
      }
      heard[k] = F::none();
      if (k * 32 + lane < B) memcpy(heard + k, words, sizeof(Value));
    }
    const Value all = fold_warp<F, 32>(fold_lanes<F, each>(heard));
    if (lane != 0) return;
    wholes[i % N] = all;
    barrier_arrive(known + i % N);
  }
  DEVICE Value whole(int i) {
    barrier_await(known + i % N, i / N % 2);
    return wholes[i % N];
  }
};
