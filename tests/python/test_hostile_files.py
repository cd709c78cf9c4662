"""Database files that hold SQL of somebody else's, and names of problem files that
would steer a terminal or a report: nothing of them is executed."""

import contextlib
import csv
import io
import os
import shutil
import sqlite3
import xml.dom.minidom
from dataclasses import replace

from bench_rows import SETTINGS, result_of, row_of, wrong
from made_journal import forged
from weft_case import ROOT, WeftCase, problem_with

from weft.bench import bench_report, plots, progress, results

_NUMBERS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
_WITHOUT_END = f"SELECT count(*) FROM ({_NUMBERS} SELECT x FROM n)"
_LARGE = "length(hex(zeroblob(400000000)))"

#: SQL that SQLite would run when {table}, whose first column is {column}, is read or
#: written.
SQL = {
    "view": f"ALTER TABLE {{table}} RENAME TO other; CREATE VIEW {{table}} AS {_NUMBERS} "
    "SELECT other.* FROM other, n WHERE x < 0;",
    "trigger": f"CREATE TRIGGER t AFTER INSERT ON {{table}} BEGIN {_WITHOUT_END}; END;",
    "update trigger": f"CREATE TRIGGER t BEFORE UPDATE ON {{table}} BEGIN {_WITHOUT_END}; END;",
    "computed column": f"ALTER TABLE {{table}} ADD COLUMN more AS ({_LARGE});",
    "check": "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, "
    f"'{{column}} ', '{{column}} CHECK({_LARGE} > 0) ') WHERE name = '{{table}}';",
    "index": f"CREATE INDEX i ON {{table}}({_LARGE});",
    "virtual table": "CREATE VIRTUAL TABLE other USING fts5(x);",
}
NAMES = (
    "=cmd|' /C calc'!A1",
    "x\n=1+1",
    "y\x1b[31mred",
    "z\u202eevil",
    "<script>alert(1)<",
    "[a](javascript:1)",
    "w|x",
)


def add_sql(path: str, name: str, table: str, column: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        with contextlib.suppress(sqlite3.OperationalError):  # "malformed schema", afterwards
            database.executescript(SQL[name].format(table=table, column=column))


class HostileDatabases(WeftCase):
    def assert_refused(self, *words: str) -> None:
        done = self.weft(*words, timeout=60)
        self.assertIn(done.returncode, (1, 2), (words, done.stdout, done.stderr))
        self.assertIn("somebody else made this file", done.stdout + done.stderr, words)

    def test_no_sql_of_a_journal_runs(self):
        for number, name in enumerate(SQL):
            run = forged(
                self.path(f"run-{number}"),
                lambda journal: {"problem": journal.blob(problem_with())},
                finished=False,
            )
            add_sql(os.path.join(run, "journal.db"), name, "event", "seq INTEGER")
            for words in (["show", run], ["replay", run], ["resume", run], ["explain", run]):
                with self.subTest(name, words=words[:1]):
                    self.assert_refused(*words)

    def test_no_sql_of_a_kernel_library_runs(self):
        library = self.path("library.db")
        with open(os.path.join(ROOT, "runtime/store/library.sql"), encoding="utf-8") as file:
            with contextlib.closing(sqlite3.connect(library)) as database:
                database.executescript(file.read())
        self.assertEqual(self.weft("export", "pairs", library).returncode, 0)
        for name in ("view", "trigger", "computed column"):
            with self.subTest(name):
                hostile = shutil.copy(library, self.path(name.replace(" ", "-") + ".db"))
                add_sql(hostile, name, "kernel", "key TEXT")
                done = self.weft("export", "pairs", hostile, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("is damaged", done.stderr)

    def test_other_tables_without_sql_do_not_matter(self):
        run = forged(self.path("run"))
        with contextlib.closing(sqlite3.connect(os.path.join(run, "journal.db"))) as database:
            database.execute("CREATE TABLE other(a, b, UNIQUE(a, b))")
            database.commit()
        self.assertEqual(self.weft("show", run).returncode, 0)


class HostileNames(WeftCase):
    def rows(self):
        rows = []
        for number, name in enumerate(NAMES):
            for told in (result_of(), wrong()):
                row = row_of(number, told)
                rows.append(replace(row, label=name, key=name, name=name + ".py"))
        results.add_floors(rows)
        return rows

    def test_a_report_of_a_bench_shows_them_as_text(self):
        rows = self.rows()
        text = bench_report.markdown(SETTINGS, rows, {}, [[0.0, 1.0]])
        for bad in ("\x1b", "\u202e", "<script>", "](javascript", "\n=1+1"):
            self.assertNotIn(bad, text.replace("\\<script>", ""), bad)
        self.assertIn("w\\|x", text)

    def test_a_bench_s_progress_is_one_line_for_each(self):
        told = io.StringIO()
        rows = self.rows()
        with contextlib.redirect_stdout(told):
            shown = progress.Progress(SETTINGS, len(rows), len(rows))
            for row in rows:
                row.reason = "x\n[9/9] y: verified\x1b[2J"
                shown.add(row)
                shown.tell(row)
        self.assertEqual(told.getvalue().count("\n"), len(rows))
        self.assertNotIn("\x1b", told.getvalue())

    def test_plots_are_well_formed(self):
        for text in plots.all_plots(self.rows()).values():
            xml.dom.minidom.parseString(text)

    def test_a_spreadsheet_computes_no_name(self):
        for row in csv.reader(io.StringIO(results.results_csv(self.rows()), newline="")):
            for cell in row:
                self.assertFalse(cell.lstrip().startswith(("=", "+", "@")), cell)


if __name__ == "__main__":
    import unittest

    unittest.main()
