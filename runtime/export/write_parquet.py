# Pairs as JSON lines (argv 1) to a parquet file (argv 2). Asked of the chosen
# Python; answers one line: {"rows": N}, or {"missing": …}, {"failed": …}.
import json
import sys

TEXTS = (
    "repo_name",
    "sha",
    "repo_link",
    "module_name",
    "entry_point",
    "uuid",
    "original_triton_code",
    "python_code",
    "triton_code",
    "kernel_code",
    "target",
    "device",
    "signature",
    "licence_from",
    "licence_note",
)
LISTS = ("licenses", "copyright")
FLAGS = ("synthetic", "correct", "is_best")
# What differs from row to row keeps its JSON: parquet has one shape a column.
OBJECTS = ("verdict", "timing", "provenance")
# Of the timing, for queries.
NUMBERS = {
    "median_us": ("candidate", "median_us"),
    "eager_us": ("eager", "median_us"),
    "over_eager": ("over_eager", "ratio"),
    "over_compile": ("over_compile", "ratio"),
}


def row_of(pair):
    row = {name: pair.get(name) for name in TEXTS + FLAGS}
    row["stars"] = pair.get("stars")
    row.update((name, pair.get(name) or []) for name in LISTS)
    for name in OBJECTS:
        value = pair.get(name)
        row[name] = None if value is None else json.dumps(value, sort_keys=True)
    timing = pair.get("timing") or {}
    for name, (what, number) in NUMBERS.items():
        row[name] = (timing.get(what) or {}).get(number)
    return row


def write(lines_file, out):
    import pyarrow
    import pyarrow.parquet

    fields = [(name, pyarrow.string()) for name in TEXTS + OBJECTS]
    fields += [(name, pyarrow.bool_()) for name in FLAGS]
    fields += [(name, pyarrow.float64()) for name in NUMBERS]
    fields += [(name, pyarrow.list_(pyarrow.string())) for name in LISTS]
    fields.append(("stars", pyarrow.int64()))
    schema = pyarrow.schema(fields)
    rows = 0
    with (
        open(lines_file, encoding="utf-8") as lines,
        pyarrow.parquet.ParquetWriter(out, schema, compression="zstd") as writer,
    ):
        group = []
        for line in lines:
            group.append(row_of(json.loads(line)))
            rows += 1
            if len(group) == 1000:
                writer.write_table(pyarrow.Table.from_pylist(group, schema))
                group = []
        writer.write_table(pyarrow.Table.from_pylist(group, schema))
    return {"rows": rows}


def answer(words):
    try:
        return write(*words)
    except ModuleNotFoundError as missing:
        return {"missing": str(missing)}
    except Exception as failure:  # told by who asked
        return {"failed": f"{type(failure).__name__}: {failure}"}


print(json.dumps(answer(sys.argv[1:3])), flush=True)
