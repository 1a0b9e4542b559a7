"""Reading shell text: what a real bash makes of it is the measure."""

from __future__ import annotations

import fnmatch
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.errors import ConfigError
from rolloutds.launch_script import PathMap, shell_script
from rolloutds.launch_script.shell_patterns import without_ends
from rolloutds.launch_script.shell_words import Array, Scanner, Text, Word

# Each ends in commands `show …`, the last of which is compared.
SCRIPTS = {
    "an array": """
        ARGS=(
           --a 1   # a comment
           # --b 2
           --c "two words"  'single "quoted"' plain\\ space
        )
        show "${ARGS[@]}"
    """,
    "arrays that grow": """
        A=(--a 1); A+=(--b 2)
        A+=( --c )
        B=("${A[@]}" --d)
        show ${A[@]} "${B[@]}" "${A[*]}" pre"${A[@]}"post
    """,
    "unquoted arrays are split": """
        A=('{"image": "images"}' "a  b")
        show --x ${A[@]} x${A[0]}y "${A[1]}" "$A"
    """,
    "continuations": """
        show --a 1 \\
          --b=2 \\
            --c \\
          "three
        lines"
    """,
    "a comment ends a continued command": """
        show --a 1 \\
          # --b 2 \\
        --c 3
        true
    """,
    "variables": """
        A=1; export B=two C="$A b"
        declare -r D='x y'
        readonly E=$D
        show --x $A "$B" "$C" $D "$E" ${A}${B} "${A}-$B" '$A' \\$A "\\$A" "a\\b" a$ $A$B
    """,
    "defaults": """
        SET=s; EMPTY=
        show --x ${SET:-d} ${EMPTY:-d} "${EMPTY-d}" ${NONE:-d} ${NONE-d} ${NONE:-"a b"} \\
          "${NONE:-a b}" "${NONE:-"q r"}" ${SET:+x} ${NONE:+x} "${NONE:+x}" ${NONE:-${SET}} \\
          ${NONE:-$SET/x} "${NONE:-'q'}" ${NONE:-a b} pre${NONE:-"c d" e}post ${NONE:-${NO:-n m}}
    """,
    "defaults that assign": """
        : "${A:=one}" ${B:=two words}
        A=${A:=other}
        show --x "$A" "$B" ${C:=three} $C
    """,
    "arrays under set -u": """
        set -u
        A=(--a "b c"); E=()
        show ${A[@]+"${A[@]}"} "${E[@]}" ${E[@]:+"${E[@]}"} --end
    """,
    "the environment": """
        OWN=${FROM_OUTSIDE}
        show --x "$FROM_OUTSIDE" "$OWN" ${FROM_OUTSIDE:-d} "~" ~/x ~ "$HOME"
    """,
    "appended text": """
        A="--a 1"; A+=" --b 2"
        A="$A --c 3"
        show $A "$A"
    """,
    "ANSI quotes": """
        show --x $'a\\tb' $'it\\'s' $'c\\\\d' "$'x'" $"e"
    """,
    "here-documents": """
cat > /dev/null <<END
show --from-here "unclosed
END
cat > /dev/null <<-'END' && B=1
) quote ' $(
\tEND
cat <<< "text" > /dev/null
show $B 2>&1 --x 2>/dev/null y
""",
    "where the script is": """
        HERE="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
        ALSO=$(cd "$(dirname "$0")"; pwd)
        UP="$(cd "${HERE}/.." && pwd -P)"
        show --x "$HERE" "$ALSO" "$UP" "$(dirname "$(realpath "$0")")" "$(realpath "$HERE/..")"
    """,
    "going somewhere": """
        (cd / && true)
        before=$PWD
        cd "$(dirname "$0")/.." || exit 1
        show --x "$PWD" "$(pwd)" "$before"
    """,
    "a sourced file": """
        source "$(dirname "$0")/other.sh"
        . "$(dirname "$0")/other.sh"
        show "$FROM_OTHER" "${OTHER_ARGS[@]}"
    """,
    "a sourced file that looks at what is set": """
        GIVEN=given source "$(dirname "$0")/other.sh"
        show --x "$FROM_OTHER"
    """,
    "branches": """
        if [ "$NONE" = x ]; then
          A=no
        elif [[ a == b && ( c < d ) ]]; then A=neither
        else
          A=yes
        fi
        [ -n "$NONE" ] || B=b
        case "$A" in
          no|never) D=c ;;
          --flag) D=d ;;
          *) C=c ;;
        esac
        show --x "$A" "$B" "$C"
    """,
    "functions and groups": """
        function log { echo "--a $1"; }
        launch() {
          local extra=--extra
          show "$extra" no
        }
        { A=a; B=b; }
        ((A == 1 << 2)); N=$((1 + 2))
        ! show --x "$A" "$B"
    """,
    "pipes and lists": """
        true | cat && A=a; B=b
        echo --no show > /dev/null; show --x "$A" "$B" | cat
    """,
    "words that look odd": """
        show a#b '#c' "#d" e=f --g=h=i 'j;k' l\\;m {n} [o] p,q @[1:2] path@[0:10] x{1..2 "" ''
    """,
    "substitutions elsewhere": """
        X=$(echo ")" '(' | cat) Y=`date` Z="$(echo "a \\"b\\" $(echo c)")"
        W=${X%/*} V=${#X} U=${X//a/b}
        show --end
    """,
    "prefix assignments": """
        A=1
        A=2 B=3 show --x "$A"
    """,
    "arithmetic": """
        A=5; B=3; LIST=(7 8); E=A+1
        show --x $((A*B)) "$(( $A / 2 ))" $((A % B)) $((-7 / 2)) $((-7 % 3)) $((7 % -3)) $((2**3**2)) \\
          $((-2**2)) $(((A+B)*2)) $((A>B)) $((0x10 + 010)) $((A==5?7:8)) $((1|2^3&1)) $((1<<4)) \\
          $((!0)) $((~0)) $((A>3&&B<1||0)) $((E*2)) $(( ${#LIST[@]} + ${B} )) $(( )) $((5>3!=0))
    """,
    "elements": """
        A=(p q); i=1; A[2]=r; A[${#A[@]}]=s; A[0]+=x; A+=y
        declare -A M=([a]=1 ["b c"]="x y"); K=z; M[$K]=/d/z.jsonl; M[a]+=2
        declare -A N; N[one]=1
        L=([0]=--l [1]=m)
        show --x "${A[@]}" ${A[$i]} ${A[i+1]} ${A[-1]} "${#A[@]}" "${M[a]}" "${M[b c]}" ${M[$K]} \\
          "${M[none]:-d}" ${N[one]} "${L[@]}" ${#K}
    """,
    "what a pattern cuts off": """
        D=/a/b/; F=x.tar.gz; E=.gz; S='a*b'; LIST=(a.x b.x)
        show --x ${D%/} "${D%/}/c" ${F%.*} "${F%%.*}" ${F#*.} ${F##*.} ${F%$E} ${F%"$E"} ${D##/?/} \\
          "${S%\\*b}" "${S%"*b"}" "${LIST[@]%.x}" ${F%nothing} "$(basename /q/r.sh .sh)" `basename $D`
    """,
    "braces in defaults": """
        SET=v
        show --x ${NONE:-{a}} ${SET:-{a}} ${NONE:-{\\"image\\":\\"images\\"}} \\
          "${NONE:-{\\"a\\": 1\\}}" "${SET:-{\\"a\\": 1}}"
    """,
    "commands as text": """
        A='p q'; C="show --a 1"
        bash -c "show --b \\"$A\\""
        eval "$C" "'$A'" \\$A
    """,
    "functions that go somewhere": """
        elsewhere() {
          cd /
        }
        function never { cd /usr
        }
        before=$PWD
        pushd /tmp > /dev/null; there=$PWD; popd > /dev/null
        back=$PWD
        elsewhere
        show --x "$before" "$there" "$back" "$PWD"
    """,
    "quotes inside substitutions": """
A=$(cat <<EOF
it's ( a "text"
EOF
)
        B=$(  # it's a comment (
          echo b
        )
        C=`echo \\`echo "c"\\``
        D=$(( 1 << 2 ))
        show --x $D `dirname \\`dirname /a/b/c\\``
    """,
    "a backslash at the end": "show --x 1 \\",
    "windows line ends": 'A=1\r\nB=(\r\n  --b "c"\r\n)\r\nshow "${B[@]}" \\\r\n $A\r\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file to source."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "other.sh").write_text(
        'FROM_OTHER=${GIVEN:-other}\nOTHER_ARGS=(--o "$FROM_OTHER")\nreturn 0\n'
    )
    return scripts


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to compare with")
@pytest.mark.parametrize("name", SCRIPTS)
def test_words_are_those_that_bash_gives_the_command(name, folder, tmp_path, monkeypatch) -> None:
    path, shown = folder / "script.sh", tmp_path / "words"
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "show").write_text(f'#!/bin/bash\nprintf "%s\\0" "$@" > {shown}\n')
    (bin_folder / "show").chmod(0o755)
    environment = {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "HOME": "/home/me",
        "FROM_OUTSIDE": "out side",
    }
    monkeypatch.chdir(tmp_path)
    # A shell stumbles over line ends of another system; we do not.
    path.write_text(SCRIPTS[name].replace("\r", ""))
    subprocess.run(["bash", str(path)], env=environment, check=False, capture_output=True)
    expected = shown.read_text().split("\0")[:-1]
    path.write_text(SCRIPTS[name])
    script = shell_script.read(path, environment, PathMap())
    command = [c for c in script.commands if c.words[0].text == "show"][-1]
    assert [word.text for word in command.words[1:]] == expected


def read(folder: Path, text: str) -> shell_script.Script:
    path = folder / "run.sh"
    path.write_text(text)
    return shell_script.read(path, {}, PathMap())


# --- quoting ------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_characters="\0\r", codec="utf-8"))))
def test_quoted_words_come_back(words) -> None:
    tokens = Scanner("show --x " + shlex.join(words), "script").tokens()
    assert [text_of(token) for token in tokens] == ["show", "--x", *words]


def text_of(token) -> str:
    assert isinstance(token, Word)
    return "".join(part.text for part in token.parts if isinstance(part, Text))


@given(st.lists(st.sampled_from("ab \n\\'\"$(){}[]#;&|<>=+-:`@*?~!1\t"), max_size=40))
def test_any_text_is_read_or_refused(characters) -> None:
    try:
        tokens = Scanner("".join(characters), "script").tokens()
    except ConfigError as error:
        tokens = []
        said = str(error)
    else:
        said = "never closed"
    assert "never closed" in said
    assert all(token.line >= 1 for token in tokens)


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\nb 'c", 2), ('\n\nA="x', 3), ("A=(\n--x", 1), ("x\n$(a", 2), ("${a", 1), ("a `b", 1)],
)
def test_what_is_never_closed_is_named_with_its_line(text, line) -> None:
    with pytest.raises(ConfigError, match=rf"script:{line}: .* is never closed"):
        Scanner(text, "script").tokens()


def test_arrays_hold_words_and_lines() -> None:
    (array,) = Scanner("\nA=( # x\n --a\n\n 'b c' )", "script").tokens()[1:]
    assert isinstance(array, Array)
    assert [word.line for word in array.words] == [3, 5]


# --- what is not known --------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        *("$(date)", "`date`", "$((A+2))", "${A%[x]}", "${A//x/y}", "${!A}", "${#B}", "${A:0:2}"),
        *("$((1/0))", "$((2**64))", "$((1 2))", "$((NONE))", "$((A[$(date)]))", "${LIST[NONE]}"),
        *("$1", "$@", "$NONE", "${NONE:?missing}", "$?", "$(pwd; date)", "$(dirname $(date))"),
    ],
)
def test_what_only_a_run_knows_stays_an_expression(tmp_path, expression) -> None:
    text = f"A=axx LIST=(a)\nshow --x pre{expression}\nshow --y {expression}\n"
    script = read(tmp_path, text)
    first, second = (command.words[2] for command in script.commands)
    assert first.text == f"pre{expression}"
    assert first.place.endswith("run.sh:2")
    assert first.unknown is not None
    assert second.unknown.text == expression


def test_nothing_of_the_script_runs(tmp_path) -> None:
    trap = tmp_path / "ran"
    read(
        tmp_path,
        f"A=$(touch {trap})\nB=`touch {trap}`\nshow --x $(touch {trap}) <(touch {trap})\n"
        f"touch {trap}\neval touch {trap}\nbash -c 'touch {trap}'\nA[$(touch {trap})]=1\n"
        f"(( B[$(touch {trap})] = 1 ))\nshow --x $(( A[$(touch {trap})] )) ${{A%$(touch {trap})}}\n"
        f"cat <<EOF\n$(touch {trap})\nEOF\ndirname $(touch {trap})\ntrap 'touch {trap}' EXIT\n"
        f"f() {{ touch {trap}; }}\nf\nX=$(cd $(touch {trap}) && pwd) Y=${{Z:=`touch {trap}`}}\n",
    )
    assert not trap.exists()


def test_loop_variables_are_not_known(tmp_path) -> None:
    script = read(tmp_path, "for size in 1 2; do\n show --x $size\ndone\n")
    assert script.commands[0].words[2].unknown.text == "$size"


def test_sourced_files_that_are_not_here_are_named(tmp_path) -> None:
    script = read(tmp_path, "source /nowhere/models.sh\nsource $MODELS\nshow --x\n")
    assert [notice.split(": ", 1)[1] for notice in script.notices] == [
        "/nowhere/models.sh is not here, so what it sets is not known; --path-map /old=/new "
        "rewrites paths of another machine",
        "$MODELS is not read, because $MODELS is set neither in the script nor in the "
        "environment; what it sets is not known",
    ]


def test_sourced_paths_are_mapped(tmp_path) -> None:
    (tmp_path / "models.sh").write_text("MODEL=m\n")
    (tmp_path / "run.sh").write_text("source /old/place/models.sh\nshow --x $MODEL\n")
    path_map = PathMap([f"/old/place={tmp_path}"])
    script = shell_script.read(tmp_path / "run.sh", {}, path_map)
    assert script.commands[0].words[2].text == "m"


def test_files_that_source_each_other_end(tmp_path) -> None:
    (tmp_path / "a.sh").write_text("source b.sh\nA=a\n")
    (tmp_path / "b.sh").write_text("source a.sh\nsource run.sh\nB=b\n")
    script = read(tmp_path, "source a.sh\nshow --x $A $B\n")
    assert [word.text for word in script.commands[0].words] == ["show", "--x", "a", "b"]


def test_a_broken_sourced_file_is_a_notice(tmp_path) -> None:
    (tmp_path / "broken.sh").write_text("A='")
    script = read(tmp_path, "source broken.sh\nshow --x\n")
    assert "is not read to its end" in script.notices[0]


def test_a_script_that_is_none_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read .*expected a launch script"):
        shell_script.read(tmp_path / "none.sh", {}, PathMap())


def test_flags_after_a_comment_in_a_command_are_said_to_be_lost(tmp_path) -> None:
    script = read(tmp_path, "show --a 1 \\\n  # --b 2 \\\n  --c 3\n")
    assert [word.text for word in script.commands[0].words] == ["show", "--a", "1"]
    assert "run.sh:3: these flags come after a comment line" in script.notices[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("if true; then\n A=1\nfi\n", "depends on a condition"),
        ("[[ -n $X ]] && A=1\n", "depends on a condition"),
        ("case x in\n x) A=1 ;;\nesac\n", "depends on a condition"),
        ("while read -r line; do A=1; done\n", "depends on a condition"),
        ("f() {\n A=1\n}\n", "is inside a function"),
        ("cd / && A=1\n", None),
        ("{ A=1; }\n", None),
        ("if true; then X=1; fi\nA=1\n", None),
    ],
)
def test_assignments_under_a_condition_leave_a_remark(tmp_path, text, said) -> None:
    script = read(tmp_path, text + "B=$A/b\nshow --x $B\n")
    remarks = script.commands[0].words[2].remarks
    assert script.commands[0].words[2].text == "1/b"
    assert [said in remark for remark in remarks] == ([True] if said else [])


@pytest.mark.parametrize(
    "command",
    [
        *("read -r A", "read A < file", "let A=2", "((A = 2))", "((A += 1))", "((A++))"),
        *("let 'A *= 2'", "printf -v A %s 2", "mapfile -t A < file", "getopts ab A"),
        *(
            "for ((A=0; A<3; A++)); do :; done",
            "for A in 1 2; do :; done",
            "if ((A++ < 3)); then :; fi",
        ),
    ],
)
def test_what_a_command_puts_in_a_variable_is_not_known(tmp_path, command) -> None:
    script = read(tmp_path, f"A=1\n{command}\nshow --x $A\n")
    unknown = script.commands[-1].words[2].unknown
    assert unknown is not None
    assert unknown.text == "$A"


def test_comparing_a_variable_leaves_it_alone(tmp_path) -> None:
    script = read(tmp_path, "A=1\nif ((A == 1 && A <= 2)); then :; fi\nprintf A\nshow --x $A\n")
    assert script.commands[-1].words[2].text == "1"


def test_text_that_evaluates_itself_ends(tmp_path) -> None:
    script = read(tmp_path, 'A=\'eval "$A"; eval "$A"; show --y\'\neval "$A"\nshow --x\n')
    assert script.commands[-1].words[1].text == "--x"


def test_text_with_quotes_that_do_not_match_is_a_notice(tmp_path) -> None:
    script = read(tmp_path, 'eval "show \'x"\nshow --x\n')
    assert [notice.split(": ", 1)[1] for notice in script.notices] == [
        "' is never closed, in the text of a command"
    ]


@pytest.mark.parametrize("cut", ["%%", "##", "%", "#"])
def test_many_stars_in_a_pattern_do_not_hold_it_up(tmp_path, cut) -> None:
    script = read(tmp_path, f"A={'a' * 5000}\nshow --x ${{A{cut}{'*a' * 40}b*}}\n")
    assert script.commands[-1].words[2].text == "a" * 5000


@pytest.mark.parametrize("step", ["A=$A$A", "A+=$A", 'L+=("${L[@]}")', 'A="$A ${A%y}$A"'])
def test_variables_that_double_are_refused(tmp_path, step) -> None:
    with pytest.raises(ConfigError, match="its variables hold too much"):
        read(tmp_path, "A=xxxx\nL=(a b c)\n" + f"{step}\n" * 60 + "show --x\n")


def test_numbers_that_refer_to_each_other_end(tmp_path) -> None:
    chain = "".join(f"A{i + 1}=A{i}+A{i}\n" for i in range(60))
    script = read(tmp_path, f"A0=1\n{chain}B=B\nshow --x $((A60)) $((B)) $((A1))\n")
    assert [word.text for word in script.commands[-1].words[2:]] == ["$((A60))", "$((B))", "2"]


@given(
    st.text("ab*?", max_size=8), st.text("ab", max_size=8), st.sampled_from(["#", "##", "%", "%%"])
)
def test_what_is_cut_off_fits_the_pattern_and_nothing_shorter_or_longer_does(
    pattern, text, operator
) -> None:
    ends = {text[:i] if operator[0] == "#" else text[i:] for i in range(len(text) + 1)}
    fitting = [end for end in ends if fnmatch.fnmatchcase(end, pattern)]
    choose = max if len(operator) == 2 else min
    cut = choose(fitting, key=len) if fitting else ""
    kept = text[len(cut) :] if operator[0] == "#" else text[: len(text) - len(cut)]
    assert without_ends(text, operator, [(pattern, False)]) == kept
