"""The command line beside packing: help, errors, plan and info."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import ROOT, Cli
from pictures import class_tree, jpeg, write_tree

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
    assert re.search(rf"examples?:\s+.*imgrec {verb}\b", capsys.readouterr().out)


def test_every_verb_has_json() -> None:
    assert [name for name in VERBS if not verb_parser(name).has_option("--json")] == []


def test_the_console_script_is_the_same_program() -> None:
    script = Path(sys.executable).with_name("imgrec")
    done = subprocess.run([script, "--version"], text=True, capture_output=True, check=True)
    assert done.stdout == "imgrec 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pack", "nowhere"], 3, "imgrec: nowhere does not exist\n  hint: give a folder of images"),
        (
            ["pack", "flowers", "--val-split", "1.5"],
            2,
            "imgrec: --val-split must be at le",
        ),
        (["pack", "flowers", "--name", "A-B"], 2, "imgrec: --name 'A-B' is not a name that tfds"),
        (["pack", "flowers", "--version", "1"], 2, "imgrec: --version '1' is not a version"),
        (
            ["pack", "flowers", "--classes", "no.txt"],
            2,
            "imgrec: cannot read --classes no.txt: No ",
        ),
        (
            ["pack", "flowers", "--shards", "99"],
            4,
            "imgrec: --shards 99 is more than the 16 images",
        ),
        (["info", "nothing"], 5, "imgrec: no dataset 'nothing': it is neither"),
        (["info", "flowers"], 5, "imgrec: no dataset 'flowers': it is neither"),
        (["pack", "flowers", "--data-dir", "a file"], 6, "imgrec: cannot write "),
    ],
)
def test_bad_input_gets_one_sentence_a_hint_and_its_exit_code(
    cli: Cli, flowers: Path, arguments: list[str], code: int, message: str
) -> None:
    (flowers.parent / "a file").touch()
    done = cli(*arguments)
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) <= 2
    assert (done.stdout, done.returncode) == ("", code)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("", "no verb given", "choose pack, plan, "),
        ("help pakc", "there is no verb 'pakc'", "did you mean pack? Choose pack, plan, "),
        (
            "completion",
            "completion needs bash|zsh|tcsh",
            'for example: eval "$(imgrec completion bash)"',
        ),
        ("completion bsh", "'bsh' is not a choice", "did you mean bash? Choose bash, zsh or tcsh"),
        ("completion fish", "'fish' is not a choice", "choose bash, zsh or tcsh"),
        ("pack x --val 1", "pack has no option --val", "did you mean --val-split? "),
        (
            "pack x --label a",
            "pack has no option --label",
            "did you mean --label-regex, --label-col, ",
        ),
        (
            "pack x --shrink-to 1",
            "pack has no option --shrink-to",
            "see imgrec pack --help",
        ),
        (
            "pack x --val-split 10%",
            "--val-split '10%' is not a number; write 0.1",
            "--val-split F: ",
        ),
        ("pakc", "there is no verb 'pakc'", "did you mean pack? Choose pack, plan, "),
        ("info", "info needs DATASET", "for example: imgrec info flowers"),
        (
            "unpack x",
            "unpack needs DATASET and DIR",
            "for example: imgrec unpack flowers ./flowers_again",
        ),
        ("pack", "no source given", "name a folder, an archive or a file"),
        ("info x y", "unexpected argument 'y'", "see imgrec info --help"),
        ("pack x --val-spilt 1", "pack has no option --val-spilt", "did you mean --val-split? "),
        ("pack x --valsplit=1", "pack has no option --valsplit", "did you mean --val-split? "),
        ("pack x --workers 0", "--workers must be at least 1", "0 was given"),
        ("pack x --label-sep=", "--label-sep is empty", "give the separator in quotes"),
        (
            "pack x --fold-case --keep-case",
            "--fold-case and --keep-case cannot be combined",
            "choo",
        ),
        ("pack x --no-resume --folds 1", "--folds must be at least 2", "leave it out for no folds"),
        ("pack x --xyzzy", "pack has no option --xyzzy", "see imgrec pack --help"),
        ("--foo pack x", "imgrec has no option --foo", "see imgrec --help"),
        ("pack x --val-split", "--val-split needs a value", "--val-split F: fraction of each "),
        ("pack x --json=1", "--json takes no value", "see imgrec pack --help"),
        (
            "pack x --shards two",
            "--shards 'two' is not a whole number",
            "--shards N: write exactly N ",
        ),
        ("pack x --max-bad no", "--max-bad 'no' is not a number", "--max-bad F: publish nothing "),
        (
            "pack x --check pixels",
            "--check 'pixels' is not a choice",
            "choose decode, structure or header",
        ),
        (
            "pack x --check headr",
            "--check 'headr' is not a choice",
            "did you mean header? Choose decode, structure or header",
        ),
        (
            "pack x --shards 1 --shard-size 1MB",
            "--shards and --shard-size cannot be combined",
            "leave out one of them",
        ),
        (
            "pack x --shard-size big",
            "--shard-size cannot be 'big'",
            "write a size such as 128MiB or 1GB",
        ),
    ],
)
def test_what_cannot_be_parsed_is_one_sentence_and_a_hint(
    capsys: pytest.CaptureFixture[str], line: str, message: str, hint: str
) -> None:
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"imgrec: {message}\n  hint: {hint}")
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("line", "usage"), [("help", "imgrec [-h]"), ("help pack", "imgrec pack [-h]")]
)
def test_help_is_a_verb_too(capsys: pytest.CaptureFixture[str], line: str, usage: str) -> None:
    with suppress(SystemExit):
        main(line.split())
    assert capsys.readouterr().out.startswith(f"usage: {usage}")


def test_a_source_that_is_not_there_is_answered_with_what_has_nearly_its_name(
    cli: Cli, flowers: Path
) -> None:
    done = cli("pack", str(flowers)[:-1])
    assert done.stderr.splitlines()[1] == f"  hint: did you mean {flowers}?"
    assert done.returncode == 3


def test_a_long_class_name_is_shortened_for_people_and_whole_for_programs(
    cli: Cli, tmp_path: Path
) -> None:
    name = "a" * 100 + "z" * 100
    files = {f"{name}/1.jpg": jpeg(1), "b/2.jpg": jpeg(2)}
    source = str(write_tree(tmp_path / "long", files))
    shown = f"classes     2 classes: {'a' * 20}…{'z' * 19}, b"
    assert shown in cli("pack", source).stdout.splitlines()
    assert json.loads(cli("pack", source, "--json").stdout)["classes"] == [name, "b"]


def test_modules_in_the_current_folder_are_not_run_by_workers(flowers: Path) -> None:
    (flowers.parent / "xxhash.py").write_text("raise SystemExit('run')")
    code = f"import imgrec; print(imgrec.dry_run({str(flowers)!r}).planned)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=flowers.parent, env=environment, text=True, capture_output=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("16\n", "")


def test_a_closed_standard_output_is_no_traceback(flowers: Path, data_dir: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(data_dir)}
    command = f"{sys.executable} -m imgrec pack {flowers} >&-"
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_shard_size_takes_units(cli: Cli, flowers: Path) -> None:
    done = cli("pack", flowers, "--shard-size", "4KiB", "--json")
    folder = Path(json.loads(done.stdout)["path"])
    sizes = [path.stat().st_size for path in folder.glob("*.tfrecord-*[0-9]")]
    assert max(sizes) <= 4096 < sum(sizes)


def test_the_classes_file_decides_the_labels(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("tulip\nlily\nrose\n")
    done = cli("pack", flowers, "--classes", "classes.txt", "--json")
    assert json.loads(done.stdout)["classes"] == ["tulip", "lily", "rose"]


def test_plan_writes_nothing_and_foretells_pack(cli: Cli, flowers: Path, data_dir: Path) -> None:
    write_tree(
        flowers, {"rose/empty.jpg": b"", "tulip/copy.jpg": (flowers / "tulip/000.jpg").read_bytes()}
    )
    options = ["--val-split", "0.25", "--shards", "3"]
    foretold = json.loads(cli("plan", flowers, *options, "--json").stdout)
    assert not data_dir.exists()
    packed = json.loads(cli("pack", flowers, *options, "--json").stdout)
    for split in foretold["splits"].values():
        split.pop("bytes")
    for split in packed["splits"].values():
        split.pop("bytes")
    assert foretold == {key: packed[key] for key in foretold}


def test_plan_shows_the_classes_and_splits_to_people(cli: Cli, flowers: Path) -> None:
    text = cli("plan", flowers, "--val-split", "0.25").stdout
    assert "flowers 1.0.0: 16 images to pack" in text
    assert "  0         rose: 6 train, 2 val" in text
    assert "Nothing was written" in text


@pytest.fixture
def packed(cli: Cli, flowers: Path, data_dir: Path) -> Path:
    cli("pack", flowers, "--val-split", "0.25", check=True)
    return data_dir


@pytest.mark.parametrize(
    "spelling",
    ["flowers", "flowers:1.0.0", "{0}", "{0}/flowers", "{0}/flowers/1.0.0", "{0}/flowers/1.0.0/"],
)
def test_a_dataset_is_found_by_name_and_by_path_at_any_level(
    cli: Cli, packed: Path, tmp_path: Path, spelling: str
) -> None:
    done = cli("info", spelling.format(packed), "--json", cwd=tmp_path.parent)
    value = json.loads(done.stdout)
    assert value["path"] == str(packed / "flowers/1.0.0")
    assert value["splits"]["val"] == {
        "examples": 4,
        "bytes": value["splits"]["val"]["bytes"],
        "shards": 1,
        "class_counts": [2, 2],
    }


def test_a_folder_of_that_name_does_not_hide_the_dataset(cli: Cli, packed: Path) -> None:
    assert cli("info", "flowers").returncode == 0


def test_the_highest_version_is_taken(cli: Cli, packed: Path, flowers: Path) -> None:
    for version in ("1.10.0", "1.9.0"):
        assert cli("pack", flowers, "--version", version).returncode == 0
    assert json.loads(cli("info", "flowers", "--json").stdout)["version"] == "1.10.0"


def test_a_data_dir_of_several_datasets_lists_them(cli: Cli, packed: Path, flowers: Path) -> None:
    cli("pack", flowers, "--name", "more", check=True)
    done = cli("info", packed)
    assert done.returncode == 5
    assert "has more than one dataset: flowers, more" in done.stderr


def test_info_tells_people_the_counts(cli: Cli, packed: Path) -> None:
    text = cli("info", "flowers").stdout
    assert re.search(r"^  1 tulip +6 \S+ +2 \S+$", text, re.MULTILINE)
    assert "fingerprint " in text


def test_info_of_broken_metadata_is_one_sentence(cli: Cli, packed: Path) -> None:
    path = packed / "flowers/1.0.0/dataset_info.json"
    path.write_text("{")
    done = cli("info", "flowers")
    assert done.returncode == 5
    assert done.stderr.startswith(f"imgrec: {path}: the file is not JSON: ")


def test_a_data_dir_elsewhere_is_in_the_load_line(cli: Cli, flowers: Path, tmp_path: Path) -> None:
    done = cli("pack", flowers, "--data-dir", "else where", "--json")
    assert json.loads(done.stdout)["load"] == (
        'tfds.load("flowers", split="train", as_supervised=True, '
        f"data_dir='{tmp_path}/else where')"
    )


def test_a_name_of_the_tfds_catalogue_is_loaded_by_version(cli: Cli, flowers: Path) -> None:
    done = cli("pack", flowers, "--name", "cifar10", "--json")
    assert json.loads(done.stdout)["load"].startswith('tfds.load("cifar10:1.0.0", ')


def test_output_into_a_closed_pipe_is_no_traceback(flowers: Path, data_dir: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(data_dir)}
    command = f"{sys.executable} -m imgrec plan {flowers} | true"
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize(("quiet", "shown"), [([], True), (["--quiet"], False)])
def test_progress_is_shown_on_a_terminal_unless_quiet(
    flowers: Path, data_dir: Path, quiet: list[str], shown: bool
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(data_dir)}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "imgrec", "pack", str(flowers), *quiet]
    subprocess.run(command, env=environment, stderr=theirs, stdout=subprocess.DEVNULL, check=True)
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 4096):
            seen += block
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    assert (b"scanning" in seen and b"packing" in seen and b"img/s" in seen) is shown
    assert bool(seen) is shown


def test_packing_twice_at_once_tells_the_second(cli: Cli, flowers: Path, data_dir: Path) -> None:
    from imgrec.storage.staging import Staging

    with Staging(data_dir / "flowers" / "1.0.0"):
        done = cli("pack", flowers)
    assert done.returncode == 6
    assert "another run is packing" in done.stderr


def test_a_source_that_vanishes_while_it_is_packed_is_a_named_skip(tmp_path: Path) -> None:
    from imgrec.model import Samples, ShardTask
    from imgrec.notes import Note
    from imgrec.options import Check
    from imgrec.write.shard import ShardWriter

    good = tmp_path / "good.jpg"
    good.write_bytes(jpeg(1))
    grown = tmp_path / "grown.jpg"
    grown.write_bytes(jpeg(2) + b"more")
    sizes = (good.stat().st_size, len(jpeg(2)), 100)
    task = ShardTask(
        split="train", index=0, filename="x.tfrecord-00000-of-00001", expected_bytes=5000,
        samples=Samples(blobs=(str(good), str(grown), str(tmp_path / "gone.jpg")),
        filenames=("good.jpg", "grown.jpg", "gone.jpg"), sizes=sizes, labels=(0, 0, 0),),
    )  # fmt: skip
    result = ShardWriter(folder=str(tmp_path), check=Check.DECODE)(task)
    assert result.records.samples.filenames == ("good.jpg",)
    assert result.bad == (
        Note("grown.jpg", "changed while it was being packed"),
        Note("gone.jpg", "unreadable: No such file or directory"),
    )


def test_a_version_that_is_not_there_is_answered_with_those_that_are(
    cli: Cli, flowers: Path
) -> None:
    assert cli("pack", flowers).returncode == 0
    done = cli("info", "flowers:2.0.0")
    assert done.returncode == 5
    assert "no version 2.0.0 of flowers" in done.stderr
    assert "hint: there is 1.0.0" in done.stderr


# Names and paths


@pytest.fixture
def odd(cli: Cli, tmp_path: Path) -> Path:
    """A folder of three images, `odd`, beside a dataset of that name with two."""
    files = {"a/0.jpg": jpeg(0), "b/1.jpg": jpeg(1)}
    assert cli("pack", write_tree(tmp_path / "two" / "odd", files)).returncode == 0
    return write_tree(tmp_path / "odd", {**files, "b/2.jpg": jpeg(2)})


@pytest.mark.parametrize("path", ["./odd", "odd/", "../{}/odd", "two/../odd"])
def test_what_is_written_as_a_path_is_no_name(cli: Cli, odd: Path, path: str) -> None:
    path = path.format(odd.parent.name)
    assert json.loads(cli("leaks", path, "--json").stdout)["images"] == 3
    done = cli("info", path)
    assert (done.returncode, done.stdout) == (5, "")


def test_a_name_with_a_config_is_looked_up_where_datasets_are(
    cli: Cli, odd: Path, data_dir: Path
) -> None:
    (data_dir / "odd" / "plain").mkdir()
    (data_dir / "odd" / "1.0.0").rename(data_dir / "odd" / "plain" / "1.0.0")
    assert odd.exists()
    assert cli("info", "odd/plain").returncode == 0


def test_a_name_that_is_a_folder_too_is_the_dataset_and_says_so(
    cli: Cli, odd: Path, data_dir: Path
) -> None:
    note = f"odd: the dataset in {data_dir}; for the folder here, write ./odd\n"
    done = cli("leaks", "odd", "--json", "--quiet")
    value = json.loads(done.stdout)
    assert (value["name"], value["version"], value["images"]) == ("odd", "1.0.0", 2)
    assert done.stderr == note
    assert cli("leaks", "odd", "--json", "--quiet", cwd=odd).stderr == ""
    assert cli("report", "odd", "--quiet").stderr == note


def test_a_file_that_is_not_there_is_missed_in_the_dataset_by_name(cli: Cli, odd: Path) -> None:
    assert odd.exists()
    lines = cli("show", "odd", "nope.jpg").stderr.splitlines()
    assert lines[0] == "imgrec: odd has no file nope.jpg"
    lines = cli("show", "odd", "nope.jpg", "--split", "train").stderr.splitlines()
    assert lines[0] == "imgrec: train has no file nope.jpg"


def test_a_sheet_of_no_pairs_is_said_not_to_be_there(cli: Cli, odd: Path) -> None:
    done = cli("leaks", "./odd", "-o", "pairs.png", "--quiet")
    assert done.stderr == "pairs.png was not written: there are no pairs to draw\n"
    assert not (odd.parent / "pairs.png").exists()


def test_an_option_before_the_verb_is_said_to_come_after_it(cli: Cli) -> None:
    done = cli("--json", "info", "odd")
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [
            "imgrec: --json must come after the verb",
            "  hint: write imgrec VERB --json",
        ],
    )


def test_a_pack_that_was_cut_off_is_said_to_be_one(cli: Cli, data_dir: Path) -> None:
    left = data_dir / "big" / ".1.0.0.incomplete"
    left.mkdir(parents=True)
    (left / "big-train.tfrecord-00000-of-00001").touch()
    hint = "run the same imgrec pack again: it continues from there; imgrec clean removes it"
    for asked in ("big", data_dir / "big"):
        done = cli("info", asked)
        assert done.returncode == 5
        assert done.stderr == f"imgrec: a pack was interrupted: {left}\n  hint: {hint}\n"


def test_clean_says_that_a_data_directory_is_not_there(cli: Cli) -> None:
    done = cli("clean", "--data-dir", "nope")
    assert (done.returncode, done.stdout) == (0, "nothing to remove: nope does not exist\n")


def test_a_missing_number_travels_and_is_valid_json(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "s", {"a.jpg": jpeg(1), "t.csv": b"id,label,dose\na,x,\n"})
    packed = cli("pack", tmp_path / "s/t.csv", "--column", "dose:float", "--json")
    assert "dose: 1 of 1 cells are missing, and become nan" in packed.stdout
    shown = cli("show", "s", "0", "--json").stdout
    assert json.loads(shown, parse_constant=pytest.fail)["columns"] == {"dose": "NaN"}
    wrong = cli("pack", tmp_path / "s/t.csv", "--column", "dose:int=x")
    assert (wrong.returncode, "the default 'x' does not fit the type int" in wrong.stderr) == (
        2,
        True,
    )
