"""The Triton kernel of few_rows.py. Imports Triton, which not every machine has."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows", "columns0", "columns1", "columns2", "columns3"])
def few_rows_kernel(  # type: ignore[no-untyped-def]
    x,
    weight0,
    weight1,
    weight2,
    weight3,
    bias0,
    bias1,
    bias2,
    bias3,
    made0,
    made1,
    made2,
    made3,
    scratch,
    counters,
    rows,
    terms,
    columns0,
    columns1,
    columns2,
    columns3,
    row_stride,
    column_stride,
    STEPS: tl.constexpr,
    PARTS: tl.constexpr,
    JOINS: tl.constexpr,
    COUNT: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    IS_WHOLE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TERMS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """made = x @ weight [+ bias], for up to four weights.

    Program (block, part) computes all rows and COLUMNS columns over this part's terms. x:
    (rows, terms). weight: (terms, columns), whose columns are column_stride apart. JOINS: the
    part that ends last adds all of them, in their order; made: (rows, columns), scratch:
    (PARTS, blocks, COLUMNS, ROWS) of float32, counters: a zero for each block. Otherwise the
    parts are the result, made: (PARTS, rows, columns). IS_WHOLE: the parts together have
    exactly `terms` terms."""
    first_block = tl.program_id(0)
    block = first_block
    part = tl.program_id(1)
    weight, bias, made, columns = weight0, bias0, made0, columns0
    if COUNT > 1:
        blocks = tl.cdiv(columns0, COLUMNS)
        if block >= blocks:
            weight, bias, made, columns = weight1, bias1, made1, columns1
            block -= blocks
            if COUNT > 2:
                blocks = tl.cdiv(columns1, COLUMNS)
                if block >= blocks:
                    weight, bias, made, columns = weight2, bias2, made2, columns2
                    block -= blocks
                    if COUNT > 3:
                        blocks = tl.cdiv(columns2, COLUMNS)
                        if block >= blocks:
                            weight, bias, made, columns = weight3, bias3, made3, columns3
                            block -= blocks
    column = block * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.arange(0, ROWS)
    is_column, is_row = column < columns, row < rows
    total = tl.zeros((COLUMNS, ROWS), tl.float32)
    for step in tl.range(0, STEPS, num_stages=STAGES):
        term = (part * STEPS + step) * TERMS + tl.arange(0, TERMS)
        weights_at = weight + column[:, None] * column_stride + term[None, :]
        rows_at = x + row[None, :] * row_stride + term[:, None]
        if IS_WHOLE:
            left = tl.load(weights_at, mask=is_column[:, None], other=0.0)
            right = tl.load(rows_at, mask=is_row[None, :], other=0.0)
        else:
            is_term = term < terms
            left = tl.load(weights_at, mask=is_column[:, None] & is_term[None, :], other=0.0)
            right = tl.load(rows_at, mask=is_row[None, :] & is_term[:, None], other=0.0)
        total = tl.dot(left, right, total)
    is_last = True
    if JOINS:
        tile = tl.arange(0, COLUMNS)[:, None] * ROWS + row[None, :]
        tiles = tl.num_programs(0) * COLUMNS * ROWS
        tile_at = scratch + first_block * COLUMNS * ROWS + tile
        tl.store(tile_at + part * tiles, total)
        tl.debug_barrier()  # the count tells of the stores of all threads
        before = tl.atomic_add(counters + first_block, 1, sem="acq_rel", scope="gpu")
        is_last = before == PARTS - 1
    if is_last:
        if JOINS:
            total = tl.zeros((COLUMNS, ROWS), tl.float32)
            for number in tl.static_range(PARTS):
                total += tl.load(tile_at + number * tiles, cache_modifier=".cg")
        if HAS_BIAS:
            total += tl.load(bias + column, mask=is_column, other=0.0).to(tl.float32)[:, None]
        made_at = made + row[None, :] * columns + column[:, None]
        if not JOINS:
            made_at += part * rows * columns
        is_made = is_column[:, None] & is_row[None, :]
        tl.store(made_at, total.to(made.dtype.element_ty), mask=is_made)
