"""A live graph as Mermaid's text, for documents and tickets. Pure."""

from __future__ import annotations

from cep_manager.graph.model import GraphEdge, GraphNode, TopologyGraph

_SHAPES = {
    "source": ("([", "])"),
    "sink": ("([", "])"),
    "receiver": ("[[", "]]"),
    "publisher": ("[[", "]]"),
    "trigger": ("{{", "}}"),
}


def mermaid(graph: TopologyGraph) -> str:
    """Return a flow chart from left to right: nodes with their capacity, edges with stream, grouping and rate."""
    numbers = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = ["flowchart LR", *(f"  {numbers[node.id]}{_node(node)}" for node in graph.nodes)]
    lines += [
        f"  {numbers[edge.source]} {'-->' if edge.connected else '-.->'}|{_quoted(_edge(edge))}| {numbers[edge.target]}"
        for edge in graph.edges
    ]
    return "\n".join(lines) + "\n"


def _node(node: GraphNode) -> str:
    before, after = _SHAPES.get(node.kind, ("[", "]"))
    text = [node.label]
    if node.component and node.state == "live":
        text.append(f"capacity {node.capacity:.3f}")
    if node.host:
        text.append(node.host)
    return f"{before}{_quoted(' · '.join(text))}{after}"


def _edge(edge: GraphEdge) -> str:
    parts = [edge.stream]
    if edge.grouping:
        parts.append(edge.grouping)
    if edge.events_per_second is not None:
        parts.append(f"{edge.events_per_second:g}/s")
    return " · ".join(parts)


def _quoted(text: str) -> str:
    """Mermaid takes entities for what would end or mark up a text."""
    for mark, entity in (("#", "#35;"), ("&", "#amp;"), ("<", "#lt;"), (">", "#gt;"), ('"', "#quot;"), ("\n", " ")):
        text = text.replace(mark, entity)
    return f'"{text}"'
