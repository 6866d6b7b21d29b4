"""What the server answers beside pages, to whom, and with which headers."""

from __future__ import annotations

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dash")

from gaptrace.measure.gaps import CAUSES
from gaptrace.render.files import Report
from gaptrace.render.html import asset_text
from gaptrace.timeline.scope import Scope
from gaptrace_dashboards import windows
from gaptrace_dashboards.app import create_app
from gaptrace_dashboards.delivery import GRID_CODE
from gaptrace_dashboards.library import Library
from gaptrace_dashboards.routes import Desk, html_text
from gaptrace_dashboards.serve import listen, ssh_hint
from gaptrace_dashboards.urls import COMPARISON_REPORT, REPORT, TRACE, address, report_url
from tests.builders import decode_events, decode_trace
from tests.dashboards.folders import SAMPLES

HERE = {"Host": "127.0.0.1:8050"}


@pytest.fixture(scope="module")
def client(desk: Desk) -> Any:
    return create_app(desk.library).server.test_client()


def ask(client: Any, path: str, **headers: str) -> Any:
    return client.get(path, headers={**HERE, **headers})


def window(client: Any, run: str, **query: Any) -> dict[str, Any]:
    text = "&".join(f"{key}={value}" for key, value in {"run": run, **query}.items())
    answer = ask(client, f"/api/timeline?{text}")
    assert answer.status_code == 200
    return json.loads(answer.data)


@pytest.mark.parametrize("path", ["/", "/run?run=x", "/_dash-layout", "/assets/a_core.js"])
def test_every_answer_is_closed_off(client: Any, path: str) -> None:
    headers = ask(client, path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    script = next(part for part in policy.split(";") if part.strip().startswith("script-src"))
    assert "unsafe" not in script
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


def test_files_with_a_version_in_their_address_are_kept(client: Any) -> None:
    page = ask(client, "/").text
    kept = re.findall(r'(?:src|href)="(/(?:shared|assets)/[^"]+)"', page)
    assert {url.partition("?")[0] for url in kept} >= {"/shared/timeline.js", "/assets/a_core.js"}
    for url in kept:
        assert "immutable" in ask(client, url).headers["Cache-Control"], url
        assert ask(client, url.partition("?")[0]).headers["Cache-Control"] == "no-cache"
    version = re.search(r"/shared/timeline.js\?v=(\w+)", page)
    assert version
    assert version[1] == hashlib.sha256(asset_text("timeline.js").encode()).hexdigest()[:10]
    assert ask(client, "/shared/absent.js?v=1").headers["Cache-Control"] == "no-cache"


def test_the_list_of_runs_comes_with_the_first_layout(client: Any, ids: dict[str, str]) -> None:
    runs = ids["demo · eager"]
    here = "http://127.0.0.1:8050/"

    def layout(**headers: str) -> str:
        return str(json.loads(ask(client, "/_dash-layout", **headers).data))

    assert f"/run?run={runs}" in layout(Referer=f"{here}?sort=-rate")
    assert f"/run?run={runs}" not in layout(Referer=f"{here}run?run={runs}")
    assert f"/run?run={runs}" not in layout()
    # The table's code is asked for ahead of need.
    assert f'<script async src="{GRID_CODE}">' in ask(client, "/").text
    assert ask(client, GRID_CODE).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8050", "127.0.0.1.evil.example", "[::2]:80", ""]
)
def test_another_host_name_is_refused(client: Any, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "LOCALHOST:1", "[::1]:8050"])
def test_this_machine_is_answered_on_any_port(client: Any, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 200


def test_a_page_of_another_origin_gets_nothing(client: Any, ids: dict[str, str]) -> None:
    run = ids["small_decoder_eager"]
    assert ask(client, address(TRACE, [run]), Origin="https://evil.example").status_code == 403
    assert ask(client, address(TRACE, [run]), Origin="http://127.0.0.1:8050").status_code == 200


@pytest.mark.parametrize("run", ["", "../etc/passwd", "/etc/passwd", "%2e%2e%2f", "nothing"])
def test_only_known_runs_are_served(client: Any, run: str) -> None:
    for path in ("/trace", "/report", "/api/timeline", "/api/gap"):
        assert ask(client, f"{path}?run={run}").status_code == 404


@pytest.mark.parametrize("path", ["/assets/../app.py", "/assets/%2e%2e/app.py", "/shared/../x"])
def test_no_way_out_of_the_assets(client: Any, path: str) -> None:
    answer = ask(client, path)
    assert b"create_app" not in answer.data


def test_a_link_out_of_the_named_folder_is_not_served(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    outside = tmp_path / "outside.json.gz"
    outside.write_bytes((SAMPLES / "small_decoder_eager.json.gz").read_bytes())
    (tmp_path / "runs" / "link.json.gz").symlink_to(outside)
    library = Library([str(tmp_path / "runs")], pool=lambda: ThreadPoolExecutor(1), settled_s=0)
    while not library.recordings():
        library.refresh()
    client = create_app(library).server.test_client()
    found = library.recordings()[0]
    assert ask(client, address(TRACE, [found.id])).status_code == 404
    library.close()


def test_the_trace_is_handed_over_as_it_is(client: Any, ids: dict[str, str]) -> None:
    sample = SAMPLES / "small_decoder_eager.json.gz"
    assert ask(client, address(TRACE, [ids["small_decoder_eager"]])).data == sample.read_bytes()
    assert ask(client, address(TRACE, [ids["demo · eager"]])).data == sample.read_bytes()


def test_reports_are_those_of_the_command_line(
    client: Any, desk: Desk, ids: dict[str, str]
) -> None:
    bare = desk.library.recording(ids["small_decoder_eager"])
    assert bare is not None
    analysis = desk.library.analysis(bare)
    assert analysis is not None
    assert ask(client, address(REPORT, [bare.id])).text == html_text(
        Report(analysis.result, analysis.analyses)
    )
    cell = desk.library.recording(ids["demo · eager"])
    assert cell is not None
    run = desk.library.run(cell)
    assert run is not None
    assert ask(client, address(REPORT, [cell.id])).text == html_text(
        Report(run.result, run.analyses)
    )
    graph = desk.library.recording(ids["demo · graph"])
    assert graph is not None
    compared = desk.comparison([cell, graph], forced=False)
    both = html_text(Report(compared.result, compared.analyses))
    assert ask(client, address(COMPARISON_REPORT, [cell.id, graph.id])).text == both


def test_the_report_is_of_the_given_step(client: Any, ids: dict[str, str]) -> None:
    text = ask(client, report_url(ids["small_decoder_graph"], "0.52ms")).text
    assert "times given by hand" in re.sub(r"<[^>]+>", "", text)
    plain = ask(client, report_url(ids["small_decoder_graph"])).text
    assert "given by hand" not in re.sub(r"<[^>]+>", "", plain)


def test_the_command_line_writes_the_same_bytes(
    client: Any, desk: Desk, ids: dict[str, str], tmp_path: Path
) -> None:
    from gaptrace.cli import main

    sample = str(SAMPLES / "small_decoder_eager.json.gz")
    graph = str(SAMPLES / "small_decoder_graph.json.gz")
    run = next(found for found in desk.library.recordings() if found.row.name == "demo · eager")
    folder = run.entry.place.path
    cases = [
        (["analyze", sample], address(REPORT, [ids["small_decoder_eager"]])),
        (["analyze", folder], address(REPORT, [run.id])),
        (
            ["compare", sample, graph],
            address(COMPARISON_REPORT, [ids["small_decoder_eager"], ids["small_decoder_graph"]]),
        ),
        (
            ["compare", f"{folder}/eager", f"{folder}/graph"],
            address(COMPARISON_REPORT, [run.id, ids["demo · graph"]]),
        ),
    ]
    for place, (arguments, where) in enumerate(cases):
        out = tmp_path / f"{place}.html"
        assert main([*arguments, "-o", str(out)]) == 0
        assert ask(client, where).data == out.read_bytes(), arguments


def test_a_window_is_the_step_asked_for(client: Any, desk: Desk, ids: dict[str, str]) -> None:
    run = ids["small_decoder_eager"]
    first = window(client, run, step=0)
    assert first["step"] == 0
    assert first["previous"] is None
    assert first["next"] == 1
    assert first["data"]["title"].startswith("step 0")
    found = desk.library.recording(run)
    assert found is not None
    analysis = desk.library.analysis(found)
    assert analysis is not None
    steps = analysis.step_table
    assert steps is not None
    assert sum(first["data"]["gaps"]["dur"]) == steps.idle_ns[0]
    median = window(client, run)
    order = np.sort(steps.period_ns[steps.counted])
    assert steps.period_ns[median["step"]] == order[(order.size - 1) // 2]


def test_a_gap_and_a_range_lead_to_their_step(client: Any, ids: dict[str, str]) -> None:
    run = ids["small_decoder_eager"]
    by_gap = window(client, run, gap=300)
    assert 300 in by_gap["data"]["gap_numbers"]
    data = by_gap["data"]
    start = data["start_ns"] + sum(data["gaps"]["start"][:4])
    by_range = window(client, run, **{"from": start, "to": start + 100})
    assert by_range["step"] == by_gap["step"]


@pytest.mark.parametrize(
    "query",
    [
        {"step": 10**12},
        {"step": -5},
        {"step": "x"},
        {"gap": 10**15},
        {"gap": -1},
        {"from": 5, "to": 1},
        {"from": "1e9", "to": "nan"},
        {"from": -(10**17), "to": 10**17},
        {"from": 10**17, "to": 10**17 + 5},
    ],
)
def test_nonsense_still_gets_a_window(
    client: Any, ids: dict[str, str], query: dict[str, Any]
) -> None:
    answer = window(client, ids["small_decoder_eager"], **query)
    assert answer["data"]["span_ns"] > 0


def test_a_window_is_bounded_and_says_what_it_merged() -> None:
    from gaptrace.analysis import analyze

    trace = decode_trace(steps=3, kernels=14_000)
    analysis = analyze(trace)
    scope = Scope(analysis)
    whole = windows.payload(analysis, scope, windows.window_of_step(scope, 0))
    shown = sum(len(lane["start"]) for lane in whole["data"]["gpu"])
    assert shown <= windows.LIMITS.gpu_ops
    assert whole["coarse"]
    assert any("merged" in note for note in whole["notes"])
    assert len(json.dumps(whole)) < 2_000_000
    start = whole["data"]["start_ns"]
    close = windows.payload(analysis, scope, windows.part_of(scope, start, start + 1_000_000, 0))
    assert not close["coarse"]
    assert close["part"]
    assert sum(len(lane["start"]) for lane in close["data"]["gpu"]) == pytest.approx(200, abs=2)


def test_the_gap_panel_says_every_cause_and_sums(
    client: Any, desk: Desk, ids: dict[str, str]
) -> None:
    run = ids["small_decoder_eager"]
    found = desk.library.recording(run)
    assert found is not None
    analysis = desk.library.analysis(found)
    assert analysis is not None
    assert analysis.device is not None
    gaps = analysis.device.gaps
    text = ask(client, f"/api/gap?run={run}&gap=300").text
    for place, cause in enumerate(CAUSES):
        assert (f'href="/glossary#def-{cause}"' in text) == bool(gaps.cause_ns[300, place])
    start, end = (analysis.trace.origin_ns + int(t[300]) for t in (gaps.start, gaps.end))
    # As much again on both sides, so that what stands around the gap is seen.
    assert f"visStart={2 * start - end}&amp;visEnd={2 * end - start}" in text
    assert "There is no such gap" in ask(client, f"/api/gap?run={run}&gap=99999999").text


def test_a_python_stack_is_shown_where_it_was_recorded() -> None:
    from gaptrace.analysis import analyze
    from gaptrace_dashboards.gap_panel import gap_panel
    from tests.builders import frame, trace_of

    events = decode_events(steps=3)
    last = max(item["ts"] + item["dur"] for item in events)
    stack = [
        frame("serve.py(10): main", at=0, dur=last),
        frame("model.py(7): step", at=0, dur=last),
    ]
    panel = gap_panel(Scope(analyze(trace_of(*events, *stack))), 3)
    assert "serve.py(10): main" in panel
    assert "not recorded" not in panel


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    from tests.dashboards.folders import write_trace

    hostile = "</script><img src=x onerror=alert(1)>\"'&\u202e"
    events = decode_events(steps=4)
    for item in events:
        if item["cat"] == "kernel":
            item["name"] = hostile
    write_trace(tmp_path / "bad.json", *events)
    library = Library([str(tmp_path)], pool=lambda: ThreadPoolExecutor(1), settled_s=0)
    while not library.recordings():
        library.refresh()
    client = create_app(library).server.test_client()
    run = library.recordings()[0].id
    panel = ask(client, f"/api/gap?run={run}&gap=2").text
    assert "&lt;img" in panel
    for text in (panel, window(client, run)["gaps"], window(client, run)["legend"]):
        assert "<img" not in text
        assert "<script" not in text
    library.close()


def test_eight_clients_at_once_get_right_answers(client: Any, ids: dict[str, str]) -> None:
    app = client.application
    names = ["small_decoder_eager", "demo · eager", "demo · graph", "small_decoder_graph"]
    paths = [f"/api/timeline?run={ids[name]}&step={step}" for name in names for step in range(5)]
    alone = {path: ask(client, path).data for path in paths}
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda p: (p, app.test_client().get(p, headers=HERE).data), paths * 5)
        )
    assert all(data == alone[path] for path, data in found)


def test_the_next_free_port_is_taken(desk: Desk) -> None:
    app = create_app(desk.library)
    first = listen(app, 0)
    port = first.server.server_port
    second = listen(app, port)
    assert second.server.server_port > port
    assert second.url.startswith("http://127.0.0.1:")
    first.server.server_close()
    second.server.server_close()


def test_the_ssh_hint_is_for_those_who_came_by_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    assert ssh_hint(8050) is None
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    hint = ssh_hint(8050)
    assert hint is not None
    assert hint.startswith("ssh -N -L 8050:127.0.0.1:8050 ")
