"""Flows with their sources, workflows, and compiled programs by hash."""

from __future__ import annotations

from store_records import a_run, a_workflow

from afl.runtime.entities import (
    BlockDefinition,
    Classifier,
    FacetDefinition,
    FileArtifact,
    FlowDefinition,
    FlowIdentity,
    InlineSource,
    JarArtifact,
    MixinDefinition,
    NamespaceDefinition,
    Ownership,
    Parameter,
    ResourceSource,
    ScriptCode,
    SourceText,
    StatementArguments,
    StatementDefinition,
    StatementReferences,
    TextSource,
    UserDefinition,
    WorkflowMetaData,
)
from afl.runtime.persistence import PersistenceAPI


def a_flow(uuid: str, name: str = "flow", path: str = "/flow", source: str = "") -> FlowDefinition:
    return FlowDefinition(
        uuid, FlowIdentity(name, path, uuid), compiled_sources=[SourceText("main.afl", source)]
    )


def test_every_field_of_a_flow_comes_back(store: PersistenceAPI) -> None:
    parameter = Parameter("p", {"a.b": [1, None], "": "\x00"}, "Map")
    user = UserDefinition("me@example.org", "Mé", "pic")
    flow = FlowDefinition(
        uuid="f",
        name=FlowIdentity("flöw", "/path", "f"),
        namespaces=[NamespaceDefinition("n", "ns", "/ns")],
        facets=[FacetDefinition("fc", "F", "n", [parameter], "Long")],
        workflows=[a_workflow(metadata=WorkflowMetaData("d", "a", ["t"]))],
        mixins=[MixinDefinition("m", "M", "n", [parameter])],
        blocks=[BlockDefinition("b", "B", "AndThen", ["s"])],
        statements=[StatementDefinition("s", "S", "call", "b", "x + 1")],
        arguments=[StatementArguments("s", [parameter])],
        references=[StatementReferences("s", ["r"])],
        script_code=[ScriptCode("c", "print()")],
        file_artifacts=[FileArtifact("/a", "sum")],
        jar_artifacts=[JarArtifact("g", "a", "1")],
        resources=[ResourceSource("r", "/r")],
        text_sources=[TextSource("t", "text")],
        inline=InlineSource("inline"),
        classification=Classifier("c", ["t"]),
        publisher=user,
        ownership=Ownership(user, "group"),
        compiled_sources=[SourceText("main.afl", "// grüße\nfacet F()\n")],
    )
    store.save_flow(flow)
    assert store.get_flow("f") == flow
    assert store.get_flow_by_name("flöw") == flow
    assert store.get_flow_by_path("/path") == flow


def test_a_flow_with_large_sources_comes_back(store: PersistenceAPI) -> None:
    flow = a_flow("f", source="facet F()\n" * 300_000)
    store.save_flow(flow)
    assert store.get_flow_by_name("flow") == flow
    small = a_flow("f", "renamed", source="facet F()")
    store.save_flow(small)
    assert store.get_flow("f") == small


def test_a_flow_is_a_copy(store: PersistenceAPI) -> None:
    flow = a_flow("f", source="one")
    store.save_flow(flow)
    flow.compiled_sources[0].content = "two"
    first = store.get_flow("f")
    assert first is not None
    first.compiled_sources.clear()
    assert store.get_flow("f") == a_flow("f", source="one")


def test_the_newest_flow_of_a_name_or_path_counts(store: PersistenceAPI) -> None:
    uuids = [f"f{(7 * number) % 20:02}" for number in range(20)]
    for uuid in uuids:
        store.save_flow(a_flow(uuid))
    by_name, by_path = store.get_flow_by_name("flow"), store.get_flow_by_path("/flow")
    assert by_name is not None
    assert by_path is not None
    assert (by_name.uuid, by_path.uuid) == (uuids[-1], uuids[-1])
    assert [flow.uuid for flow in store.get_all_flows()] == uuids


def test_flows_are_listed_newest_first_page_by_page(store: PersistenceAPI) -> None:
    uuids = [f"f{(7 * number) % 20:02}" for number in range(20)]
    for uuid in uuids:
        store.save_flow(a_flow(uuid))
    newest = uuids[::-1]
    first = store.find_flows(limit=8)
    assert [flow.uuid for flow in first] == newest[:8]
    assert [flow.uuid for flow in store.find_flows(before=first[-1].uuid)] == newest[8:]
    assert store.find_flows(before=newest[-1]) == []
    assert store.find_flows(before="gone") == []
    assert store.find_flows(limit=0) == []


def test_flows_are_found_by_the_beginning_of_their_id(store: PersistenceAPI) -> None:
    for uuid in ("ab1", "ab2", "aB3", "a%4"):
        store.save_flow(a_flow(uuid))
    assert [flow.uuid for flow in store.find_flows(prefix="ab")] == ["ab2", "ab1"]
    assert [flow.uuid for flow in store.find_flows(prefix="a%")] == ["a%4"]
    assert [flow.uuid for flow in store.find_flows(prefix="ab", before="ab2")] == ["ab1"]


def test_the_runs_of_flows_are_counted(store: PersistenceAPI) -> None:
    for number, flow in enumerate(["f1", "f1", "f2", ""]):
        store.insert_run(a_run(f"run-{number}", flow_id=flow))
    assert store.count_runs_of_flows(["f1", "f2", "f3"]) == {"f1": 2, "f2": 1}
    assert store.count_runs_of_flows([]) == {}


def test_a_deleted_flow_is_gone(store: PersistenceAPI) -> None:
    store.save_flow(a_flow("f1"))
    store.save_flow(a_flow("f2"))
    assert store.delete_flow("f2")
    assert not store.delete_flow("f2")
    assert store.get_flow("f2") is None
    assert store.get_flow_by_name("flow") == a_flow("f1")


def test_a_flow_or_workflow_that_is_not_there(store: PersistenceAPI) -> None:
    assert store.get_flow("missing") is None
    assert store.get_flow_by_name("missing") is None
    assert store.get_flow_by_path("missing") is None
    assert store.get_all_flows() == []
    assert store.get_workflow("missing") is None
    assert store.get_workflow_by_name("missing") is None
    assert store.get_workflows_by_flow("missing") == []


def test_every_field_of_a_workflow_comes_back(store: PersistenceAPI) -> None:
    workflow = a_workflow(metadata=WorkflowMetaData("dé", "a", ["t"]), documentation="doc", date=5)
    store.save_workflow(workflow)
    assert store.get_workflow("w") == workflow
    store.save_workflow(a_workflow())
    assert store.get_workflow("w") == a_workflow()


def test_the_newest_workflow_of_a_name_counts(store: PersistenceAPI) -> None:
    for number, date in enumerate([5, 9, 1]):
        store.save_workflow(a_workflow(f"w{number}", "ns.W", date=date))
    store.save_workflow(a_workflow("other", "ns.X", "other", date=20))
    assert store.get_workflow_by_name("ns.W") == a_workflow("w1", "ns.W", date=9)
    assert sorted(each.uuid for each in store.get_workflows_by_flow("f")) == ["w0", "w1", "w2"]


def test_a_program_is_stored_once(store: PersistenceAPI) -> None:
    assert store.get_program("h") is None
    store.save_program("h", '{"é": 1}')
    store.save_program("h", '{"never": "stored"}')
    assert store.get_program("h") == '{"é": 1}'


def test_a_program_larger_than_a_payload_comes_back(store: PersistenceAPI) -> None:
    compiled = '{"statement": "%s"}' % ("abcdefgh" * 2_500_000)
    store.save_program("h", compiled)
    assert store.get_program("h") == compiled
