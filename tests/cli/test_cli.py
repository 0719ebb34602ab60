"""The command line: help, errors, and how datasets are named."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import ROOT, Cli
from inline import pack
from pictures import class_tree, jpeg, write_tree
from screen import on_a_terminal

import imgrec
from imgrec.cli.main import main
from imgrec.cli.parser import VERBS, verb_parser


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "flowers", {"rose": 8, "tulip": 8})


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_shows_examples_of_it(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    assert re.search(rf"examples:\s+.*imgrec {verb}\b", capsys.readouterr().out)
    assert verb_parser(verb).has_option("--json")


def test_the_page_of_commands_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "commands"]) == 0
    listed = re.findall(r"^imgrec (\w+) ?", capsys.readouterr().out, re.MULTILINE)
    assert sorted(listed) == sorted([*VERBS, "help"])


def test_the_help_of_no_resume_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):
        main(["pack", "--help"])
    assert re.search(r"^  --no-resume +start over even if", capsys.readouterr().out, re.MULTILINE)
    assert "resume: continue an interrupted run" in (imgrec.pack.__doc__ or "")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("help", "usage: imgrec [-h]"),
        ("--help", "usage: imgrec [-h]"),
        ("pack --help", "usage: imgrec pack [-h]"),
        ("help pack", "# imgrec pack, imgrec plan\n"),
        ("help edit", "# imgrec update and edit\n"),
        ("--version", "imgrec 0.1.0\n"),
    ],
)
def test_help_and_version(capsys: pytest.CaptureFixture[str], line: str, shown: str) -> None:
    with suppress(SystemExit):
        assert main(line.split()) == 0
    assert capsys.readouterr().out.startswith(shown)


def test_the_console_script_is_the_same_program() -> None:
    script = Path(sys.executable).with_name("imgrec")
    done = subprocess.run([script, "--version"], text=True, capture_output=True, check=True)
    assert done.stdout == "imgrec 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pack", "nowhere"], 3, "nowhere does not exist\n  hint: give a folder of images"),
        (["pack", "flower"], 3, "flower does not exist\n  hint: did you mean flowers?"),
        (["pack", "flowers", "--val-split", "1.5"], 2, "--val-split must be at least 0 and less"),
        (["pack", "flowers", "--name", "A-B"], 2, "--name 'A-B' is not a name that tfds"),
        (["pack", "flowers", "--version", "1"], 2, "--version '1' is not a version"),
        (["pack", "flowers", "--classes", "no.txt"], 2, "cannot read --classes no.txt: No "),
        (["pack", "flowers", "--shards", "99"], 4, "--shards 99 is more than the 16 images"),
        (["info", "nothing"], 5, "no dataset 'nothing': it is neither"),
        (["info", "flowers"], 5, "no dataset 'flowers': it is neither"),
        (["pack", "flowers", "--data-dir", "a file"], 6, "cannot write "),
    ],
)
def test_bad_input_gets_one_sentence_a_hint_and_its_exit_code(
    cli: Cli, flowers: Path, arguments: list[str], code: int, message: str
) -> None:
    (flowers.parent / "a file").touch()
    done = cli(*arguments)
    assert done.stderr.startswith(f"imgrec: {message}")
    assert len(done.stderr.splitlines()) <= 2
    assert (done.stdout, done.returncode) == ("", code)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "no verb given", "choose pack, plan, "),
        ("pakc", "there is no verb 'pakc'", "did you mean pack? Choose pack, plan, "),
        (
            "help pakc",
            "there is no verb or topic 'pakc'",
            "did you mean pack? Choose architecture, ",
        ),
        ("--foo pack x", "imgrec has no option --foo", "see imgrec --help"),
        ("--json info x", "--json must come after the verb", "write imgrec VERB --json"),
        ("completion", "completion needs bash|zsh|tcsh", 'for example: eval "$(imgrec completion'),
        ("completion bsh", "'bsh' is not a choice", "did you mean bash? Choose bash, zsh or tcsh"),
        ("completion fish", "'fish' is not a choice", "choose bash, zsh or tcsh"),
        ("info", "info needs DATASET", "for example: imgrec info flowers"),
        ("unpack x", "unpack needs DATASET and DIR", "for example: imgrec unpack flowers ./flow"),
        ("info x y", "unexpected argument 'y'", "see imgrec info --help"),
        ("head x Valid", "unexpected argument 'Valid'", "did you mean --split val?"),
        ("pack", "no source given", "name a folder, an archive or a file"),
        ("pack x --val 1", "pack has no option --val", "did you mean --val-split? "),
        ("pack x --label a", "pack has no option --label", "did you mean --label-regex, --label-"),
        ("pack x --password a", "pack has no option --password", "see imgrec pack --help"),
        ("pack x --shrink-to 1", "pack has no option --shrink-to", "see imgrec pack --help"),
        ("pack x --valsplit=1", "pack has no option --valsplit", "did you mean --val-split? "),
        ("pack x --val-fraction 1", "pack has no option --val-fraction", "it is now called --val-"),
        ("pack x --val-split", "--val-split needs a value", "--val-split F: fraction of each "),
        ("pack x --val-split 10%", "--val-split '10%' is not a number; write 0.1", "--val-split"),
        ("pack x --json=1", "--json takes no value", "see imgrec pack --help"),
        ("pack x --shards two", "--shards 'two' is not a whole number", "--shards N: write exact"),
        ("pack x --check headr", "--check 'headr' is not a choice", "did you mean header? Choose"),
        ("pack x --workers 0", "--workers must be at least 1", "0 was given"),
        ("pack x --label-sep=", "--label-sep is empty", "give the separator in quotes"),
        ("pack x --fold-case --keep-case", "--fold-case and --keep-case cannot be comb", "choose"),
        ("pack x --no-resume --folds 1", "--folds must be at least 2", "leave it out for no folds"),
        ("pack x --shards 1 --shard-size 1MB", "--shards and --shard-size cannot be", "leave out"),
        ("pack x --shard-size big", "--shard-size cannot be 'big'", "write a size such as 128MiB"),
        ("pack x --spark-conf a", "--spark-conf 'a' is not a setting; write", "--spark-conf K=V"),
        ("pack x --spark-conf a=b", "--spark-master and --spark-conf need", "pass --engine spark"),
        ("pack x --engine spark --workers 2", "--workers cannot be combined with", "pass --spark"),
    ],
)
def test_a_command_line_that_cannot_be_parsed_gets_one_sentence_and_a_hint(
    capsys: pytest.CaptureFixture[str], line: str, message: str, hint: str
) -> None:
    assert main(line.split()) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"imgrec: {message}")
    assert second.startswith(f"  hint: {hint}")


def test_a_long_class_name_is_shortened_for_people_and_whole_for_programs(
    cli: Cli, tmp_path: Path
) -> None:
    name = "a" * 100 + "z" * 100
    source = write_tree(tmp_path / "long", {f"{name}/1.jpg": jpeg(1), "b/2.jpg": jpeg(2)})
    shown = f"classes     2 classes: {'a' * 20}…{'z' * 19}, b"
    assert shown in cli("pack", source).stdout.splitlines()
    assert json.loads(cli("pack", source, "--json").stdout)["classes"] == [name, "b"]


def test_a_home_folder_is_expanded_in_every_path(
    cli: Cli, flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "classes.txt").write_text("tulip\nrose\n")
    (tmp_path / "table.csv").write_text("path,label\nrose/000.jpg,a\ntulip/000.jpg,b\n")
    (tmp_path / "splits.csv").write_text("path,split\nrose/000.jpg,test\n")
    (tmp_path / "elsewhere").mkdir()
    for arguments in (
        ["pack", "~/flowers", "--classes", "~/classes.txt", "--split-file", "~/splits.csv"],
        ["plan", "~/table.csv", "--images", "~/flowers"],
        ["plan", "~/flowers", "--manifest", "~/table.csv"],
        ["leaks", "~/flowers", "--against", "~/flowers"],
        ["preview", "~/flowers", "-o", "~/sheet.png"],
        ["verify", "flowers", "--source", "~/flowers"],
        ["unpack", "flowers", "~/again"],
    ):
        done = cli(*arguments, cwd=tmp_path / "elsewhere")
        assert (done.stderr, done.returncode in (0, 1)) == ("", True)
    assert imgrec.plan("~/flowers").name == imgrec.plan(Path("~/flowers")).name == "flowers"
    assert (tmp_path / "sheet.png").is_file() and (tmp_path / "again/rose").is_dir()
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_shard_size_takes_units(cli: Cli, flowers: Path) -> None:
    done = cli("pack", flowers, "--shard-size", "4KiB", "--json")
    folder = Path(json.loads(done.stdout)["path"])
    sizes = [path.stat().st_size for path in folder.glob("*.tfrecord-*[0-9]")]
    assert max(sizes) <= 4096 < sum(sizes)


def test_names_are_separated_by_commas_or_by_repeating_the_option(cli: Cli, tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 1, "b, c": 1, "d": 1, "e": 1})
    options = ["--only-classes", 'a, "b, c"', "--only-classes", "d"]
    done = cli("plan", source, *options, "--json")
    assert json.loads(done.stdout)["classes"] == ["a", "b, c", "d"]


def test_the_classes_file_decides_the_labels(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("tulip\nlily\nrose\n")
    done = cli("pack", flowers, "--classes", "classes.txt", "--json")
    assert json.loads(done.stdout)["classes"] == ["tulip", "lily", "rose"]


def test_plan_writes_nothing_and_predicts_pack(cli: Cli, flowers: Path, data_dir: Path) -> None:
    write_tree(
        flowers, {"rose/empty.jpg": b"", "tulip/copy.jpg": (flowers / "tulip/000.jpg").read_bytes()}
    )
    options = ["--val-split", "0.25", "--shards", "3"]
    planned = json.loads(cli("plan", flowers, *options, "--json").stdout)
    text = cli("plan", flowers, *options).stdout
    assert not data_dir.exists()
    packed = json.loads(cli("pack", flowers, *options, "--json").stdout)
    for split in (*planned["splits"].values(), *packed["splits"].values()):
        split.pop("bytes")
    assert planned.pop("schema") == "imgrec/plan/1"
    assert planned == {key: packed[key] for key in planned}
    assert "flowers 1.0.0: 17 images to pack" in text
    assert "  0         rose: 6 train, 2 val" in text
    assert "Nothing was written" in text


@pytest.mark.parametrize(
    ("options", "load"),
    [
        (["--data-dir", "else where"], "{0}, data_dir='{1}/else where')"),
        (["--name", "cifar10"], "{0})"),  # in the catalogue of TFDS, so with its version
    ],
)
def test_the_load_line_finds_the_dataset(
    cli: Cli, flowers: Path, tmp_path: Path, options: list[str], load: str
) -> None:
    done = cli("pack", flowers, *options, "--json")
    name = "cifar10:1.0.0" if "cifar10" in options else "flowers"
    start = f'tfds.load("{name}", split="train", as_supervised=True'
    assert json.loads(done.stdout)["load"] == load.format(start, tmp_path)


# Processes and streams


def shell(command: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(data_dir)}
    command = command.replace("imgrec", f"{sys.executable} -m imgrec")
    return subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("command", ["imgrec pack {} >&-", "imgrec plan {} | true"])
def test_output_that_nobody_reads_is_not_a_traceback(
    flowers: Path, data_dir: Path, command: str
) -> None:
    done = shell(command.format(flowers), data_dir)
    assert (done.returncode, done.stderr) == (0, "")


def test_modules_in_the_current_folder_are_not_run_by_workers(flowers: Path) -> None:
    (flowers.parent / "xxhash.py").write_text("raise SystemExit('run')")
    code = f"import imgrec; print(imgrec.plan({str(flowers)!r}).planned)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=flowers.parent, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("16\n", "")


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_on_a_terminal_unless_quiet(
    flowers: Path, data_dir: Path, quiet: bool
) -> None:
    options = ["--quiet"] if quiet else []
    shown = on_a_terminal(data_dir, "pack", str(flowers), *options, stream="stderr")
    assert [word in shown for word in ("scanning", "packing", "img/s")] == [not quiet] * 3
    assert bool(shown) is not quiet


# Names and paths of datasets


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source `odd` (3 images), and datasets: `odd` (2 images), `more`."""
    place = tmp_path_factory.mktemp("named")
    files = {"a/0.jpg": jpeg(0), "b/1.jpg": jpeg(1)}
    source = write_tree(place / "two" / "odd", files)
    for version in ("1.10.0", "1.9.0"):
        pack(source, place / "datasets", version=version)
    write_tree(place / "odd", {**files, "b/2.jpg": jpeg(2)})
    pack(source, place / "several", name="more")
    pack(source, place / "several", name="other")
    (place / "several/deep/plain").mkdir(parents=True)
    deep = pack(source, place / "several", name="deep")
    deep.rename(place / "several/deep/plain/1.0.0")
    return place


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("odd", "1.10.0"), ("odd:1.9.0", "1.9.0"), ("{0}/datasets", "1.10.0"),
        ("{0}/datasets/odd", "1.10.0"), ("{0}/datasets/odd/1.9.0", "1.9.0"),
        ("{0}/datasets/odd/1.9.0/", "1.9.0"),
    ],
)  # fmt: skip
def test_a_dataset_is_found_by_name_and_by_path_at_any_level(
    cli: Cli, place: Path, name: str, version: str
) -> None:
    variables = ["--data-dir", str(place / "datasets")]
    done = cli("info", name.format(place), *([] if "/" in name else variables), "--json", cwd=place)
    value = json.loads(done.stdout)
    assert value["path"] == str(place / "datasets/odd" / version)
    assert value["splits"]["train"]["class_counts"] == [1, 1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["info", "several"], 5, "more than one dataset: more, other"),
        (["info", "odd:2.0.0", "--data-dir", "datasets"], 5, "hint: there is 1.9.0, 1.10.0"),
        (["show", "odd", "nope.jpg", "--data-dir", "datasets"], 5, "odd has no file nope.jpg"),
        (["show", "datasets", "nope.jpg", "--split", "train"], 5, "train has no file nope.jpg"),
        (["info", "deep/plain", "--data-dir", "several"], 0, ""),  # a name with a config
    ],
)
def test_what_is_not_there_is_answered_with_what_is(
    cli: Cli, place: Path, arguments: list[str], code: int, message: str
) -> None:
    done = cli(*arguments, cwd=place)
    assert done.returncode == code
    assert message in done.stderr


@pytest.mark.parametrize("path", ["./odd", "odd/", "../{}/odd", "two/../odd"])
def test_a_path_is_never_taken_for_a_name(cli: Cli, place: Path, path: str) -> None:
    path = path.format(place.name)
    assert json.loads(cli("leaks", path, "--json", cwd=place).stdout)["images"] == 3
    done = cli("info", path, cwd=place)
    assert (done.returncode, done.stdout) == (5, "")


def test_a_name_that_is_also_a_folder_is_the_dataset_with_a_note(cli: Cli, place: Path) -> None:
    where = ["--data-dir", str(place / "datasets"), "--quiet"]
    note = f"odd: the dataset in {place / 'datasets'}; for the folder here, write ./odd\n"
    done = cli("leaks", "odd", "--json", *where, cwd=place)
    value = json.loads(done.stdout)
    assert (value["name"], value["version"], value["images"]) == ("odd", "1.10.0", 2)
    assert done.stderr == note
    assert cli("leaks", "odd", "--json", *where, cwd=place / "odd").stderr == ""
    assert cli("preview", "odd", *where, cwd=place).stderr == note


def test_a_sheet_without_pairs_is_not_written_and_a_note_says_so(cli: Cli, place: Path) -> None:
    done = cli("leaks", "./odd", "-o", "pairs.png", "--quiet", cwd=place)
    assert done.stderr == "pairs.png was not written: there is nothing to draw\n"
    assert not (place / "pairs.png").exists()


def test_info_of_broken_metadata_is_one_sentence(cli: Cli, flowers: Path, data_dir: Path) -> None:
    path = pack(flowers, data_dir) / "dataset_info.json"
    path.write_text("{")
    done = cli("info", "flowers")
    assert done.returncode == 5
    assert done.stderr.startswith(f"imgrec: {path}: the file is not JSON: ")


def test_an_interrupted_pack_is_named(cli: Cli, data_dir: Path) -> None:
    left = data_dir / "big" / ".1.0.0.incomplete"
    write_tree(left, {"big-train.tfrecord-00000-of-00001": b""})
    for asked in ("big", data_dir / "big"):
        done = cli("info", asked)
        assert done.returncode == 5
        assert str(left) in done.stderr
        assert "imgrec clean" in done.stderr


def test_clean_says_that_a_data_directory_does_not_exist(cli: Cli) -> None:
    done = cli("clean", "--data-dir", "nope")
    assert (done.returncode, done.stdout) == (0, "nothing to remove: nope does not exist\n")


def test_a_missing_number_is_packed_and_is_valid_json(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "s", {"a.jpg": jpeg(1), "t.csv": b"id,label,dose\na,x,\n"})
    packed = cli("pack", tmp_path / "s/t.csv", "--column", "dose:float", "--json")
    assert "dose: 1 of 1 cells are missing" in packed.stdout
    shown = cli("show", "s", "0", "--json").stdout
    assert json.loads(shown, parse_constant=pytest.fail)["columns"] == {"dose": "NaN"}
    wrong = cli("pack", tmp_path / "s/t.csv", "--column", "dose:int=x")
    assert wrong.returncode == 2
    assert "the default 'x' does not fit the type int" in wrong.stderr
