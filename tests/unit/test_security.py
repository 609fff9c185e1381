"""What this package never does: run text as code, build SQL from values, listen to the network."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import polyceptron

SOURCE = Path(polyceptron.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def trees():
    """Every file of the package, parsed when a test first looks: all workers import this file."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


@pytest.fixture(autouse=True, scope="module")
def forgotten_afterwards():
    """The trees are large, and no other file uses them."""
    yield
    for kept in (trees, nodes, calls):
        kept.cache_clear()


@cache
def nodes(tree):
    return tuple(ast.walk(tree))


@cache
def calls(tree):
    """Every call as (dotted name, node)."""
    return [(written(node.func), node) for node in nodes(tree) if isinstance(node, ast.Call)]


def written(function):
    """As in the text; most are names with dots, which need no printer of their own."""
    match function:
        case ast.Name():
            return function.id
        case ast.Attribute(value=ast.Name() | ast.Attribute()):
            return f"{written(function.value)}.{function.attr}"
    return ast.unparse(function)


def imports(tree):
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_there_is_source_to_look_at():
    assert len(FILES) > 50


def test_nothing_is_unpickled_and_no_text_is_run():
    for path, tree in trees().items():
        found = {name.split(".")[0] for name in imports(tree)}
        assert not found & {"pickle", "dill", "cloudpickle", "marshal", "shelve"}, path
        names = {name for name, _ in calls(tree)}
        assert not names & {"eval", "exec", "compile", "__import__", "os.system"}, path
        for name, node in calls(tree):
            if name == "np.load":
                options = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert options["allow_pickle"] == "False", path
        assert not {name for name in names if name.endswith((".read_pickle", ".to_pickle"))}, path


def test_no_shell_is_started():
    for path, tree in trees().items():
        for name, node in calls(tree):
            if name.startswith("subprocess."):
                options = {word.arg for word in node.keywords}
                assert "shell" not in options, path
                assert not isinstance(node.args[0], ast.Constant | ast.JoinedStr), path


def test_sql_takes_values_as_parameters():
    """An f-string may name columns and question marks, which are ours, and nothing else."""
    seen = 0
    for path in [SOURCE / "store.py", *SOURCE.joinpath("lab").glob("*.py")]:
        text = path.read_text(encoding="utf-8")
        for statement in re.findall(r'f"[^"]*(?:SELECT|INSERT|DELETE|UPDATE|PRAGMA)[^"]*"', text):
            seen += 1
            inside = set(re.findall(r"{([^{}]*)}", statement))
            ours = {"', '.join(FIELDS)", "_BLOBS", "INTACT", "_SELECT"}
            ours |= {"marks", "SCHEMA_VERSION", "APPLICATION_ID"}
            assert inside <= ours, (path, inside)
        assert not re.search(r'execute\w*\(\s*"[^"]*"\s*(%|\.format)', text), path
    assert seen > 0


def test_the_explorer_listens_on_this_machine_only():
    text = SOURCE.joinpath("report/explorer/request_guard.py").read_text(encoding="utf-8")
    assert "127.0.0.1" in text
    for path in FILES:
        assert "0.0.0.0" not in path.read_text(encoding="utf-8"), path


def test_files_are_written_in_one_piece():
    """Every file is written by what these two are given: a lambda, or a name."""
    writers = ("write_atomically", "write_together")
    seen = 0
    for path, tree in trees().items():
        given = [node for name, node in calls(tree) if name in writers]
        names = {arg.id for node in given for arg in node.args if isinstance(arg, ast.Name)}
        given += [
            node for node in nodes(tree) if isinstance(node, ast.FunctionDef) and node.name in names
        ]
        guarded = {id(inner) for node in given for inner in ast.walk(node)}
        for name, node in calls(tree):
            method = name.split(".")[-1] if "." in name else ""
            text = [a.value for a in node.args if isinstance(a, ast.Constant)]
            opens = name.endswith("open") and any(set(str(mode)) <= set("wxab+") for mode in text)
            saves = method in ("to_csv", "to_parquet", "savefig") and node.args
            if opens or saves or method in ("write_text", "write_bytes"):
                place = path.relative_to(SOURCE).as_posix()
                assert id(node) in guarded, (place, name)
                seen += 1
    assert seen > 4


def test_random_numbers_never_come_from_a_global_state():
    for path, tree in trees().items():
        for name, _ in calls(tree):
            if name.startswith("np.random."):
                made = re.match(r"np\.random\.(\w+)", name).group(1)
                assert made in ("default_rng", "SeedSequence", "Generator"), path
            assert not name.startswith("random."), path
