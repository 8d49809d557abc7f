"""The tables, one a resource. Names and types are the rows' own (rows.py)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, MetaData, String, Table, UniqueConstraint, text

VERSION = 11
"""Of the schema; kept in the file as SQLite's user_version."""

metadata = MetaData()

nodes = Table(
    "nodes",
    metadata,
    Column("uid", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("name", String, nullable=False),
    Column("accelerator_type", String, nullable=False),
    Column("state", String, nullable=False),
    Column("health_description", String),
    Column("host", String, nullable=False),
    Column("port", Integer, nullable=False),
    Column("topology", String),
    Column("num_slices", Integer, nullable=False, server_default="1"),
    Column("spec", JSON, nullable=False),
    Column("owner_job", String),
    Column("queued_resource", String),
    Column("node_prefix", String),
    Column("api_version", String, nullable=False, server_default="V2"),
    Column("operation", String),
    Column("failures", Integer, nullable=False),
    Column("failure_time", Float),
    Column("first_host", Integer),
    Column("num_hosts", Integer),
    Column("faults", JSON, nullable=False, server_default="[]"),
    Column("placement", JSON(none_as_null=True)),
    Column("create_time", Float, nullable=False),
    UniqueConstraint("project", "zone", "name"),
    UniqueConstraint("host", "port"),
)

operations = Table(
    "operations",
    metadata,
    Column("name", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("target", String, nullable=False),
    Column("verb", String, nullable=False),
    Column("api_version", String, nullable=False, server_default="V2"),
    Column("done", Boolean, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("response", JSON(none_as_null=True)),
    Column("hold", JSON(none_as_null=True)),
    Column("error", JSON(none_as_null=True)),
    Column("create_time", Float, nullable=False),
    Column("end_time", Float),
)

queued_resources = Table(
    "queued_resources",
    metadata,
    Column("uid", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("name", String, nullable=False),
    Column("state", String, nullable=False),
    Column("initiator", String, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("api_version", String, nullable=False),
    Column("error", JSON(none_as_null=True)),
    Column("operation", String),
    Column("hold", JSON(none_as_null=True)),
    Column("queue_time", Float, nullable=False),
    Column("create_time", Float, nullable=False),
    UniqueConstraint("project", "zone", "name"),
)

requests = Table(
    "requests",
    metadata,
    Column("request", String, primary_key=True),
    Column("operation", String, nullable=False),
    Column("create_time", Float, nullable=False),
)

api_faults = Table(
    "api_faults",
    metadata,
    Column("id", String, primary_key=True),
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("count", Integer),
    Column("probability", Float, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("method", String),
    Column("after", Float),
    Column("seconds", Float),
    Column("rate", Integer),
    Column("at_step", Integer),
    Column("seen", Integer, nullable=False),
    Column("struck", Integer, nullable=False),
    Column("recent", JSON, nullable=False),
    Column("create_time", Float, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("uid", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("name", String, nullable=False),
    Column("state", String, nullable=False),
    Column("command", JSON, nullable=False),
    Column("working_directory", String, nullable=False),
    Column("slice", String, nullable=False),
    Column("accelerator_type", String, nullable=False),
    Column("topology", String),
    Column("num_slices", Integer, nullable=False, server_default="1"),
    Column("processes", Integer, nullable=False, server_default="1"),
    Column("hosts", Integer, nullable=False, server_default="1"),
    Column("workers", JSON, nullable=False, server_default="[]"),
    Column("ephemeral_slice", Boolean, nullable=False),
    Column("keep_slice", Boolean, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Column("failed_worker", Integer),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("error", JSON(none_as_null=True)),
    Column("metrics", JSON, nullable=False),
    Column("metrics_tail", JSON, nullable=False),
    Column("artifacts", JSON, nullable=False),
    Column("host_seconds", Float),
    Column("device_seconds", Float),
    Column("device_seconds_before", Float, nullable=False),
    Column("plan", JSON, nullable=False, server_default="{}"),
    Column("attempt", Integer, nullable=False, server_default="1"),
    Column("attempts", JSON, nullable=False, server_default="[]"),
    Column("waits", JSON(none_as_null=True)),
    Column("notice_time", Float),
    Column("create_time", Float, nullable=False),
    Column("start_time", Float),
    Column("end_time", Float),
    UniqueConstraint("project", "name"),
)

schedules = Table(
    "schedules",
    metadata,
    Column("uid", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("name", String, nullable=False),
    Column("every", String, nullable=False),
    Column("job", JSON, nullable=False),
    Column("next_time", Float, nullable=False),
    Column("last_time", Float),
    Column("last_job", String),
    Column("runs", Integer, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("error", String),
    Column("create_time", Float, nullable=False),
    Column("indices", JSON(none_as_null=True)),
    UniqueConstraint("project", "name"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String, primary_key=True),
    Column("principal", String, nullable=False),
    Column("digest", String, nullable=False, unique=True),
    Column("roles", JSON, nullable=False),
    Column("create_time", Float, nullable=False),
)

projects = Table(
    "projects",
    metadata,
    Column("project", String, primary_key=True),
    Column("metadata", JSON, nullable=False),
    Column("create_time", Float, nullable=False),
)

budgets = Table(
    "budgets",
    metadata,
    Column("project", String, primary_key=True),
    Column("amount", Float, nullable=False),
    Column("stop", Boolean, nullable=False),
    Column("create_time", Float, nullable=False),
)

reservations = Table(
    "reservations",
    metadata,
    Column("uid", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("project", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("generation", String, nullable=False),
    Column("chips", Integer, nullable=False),
    Column("shared_with", JSON, nullable=False),
    Column("start_time", Float, nullable=False),
    Column("end_time", Float),
    Column("create_time", Float, nullable=False),
    Column("placement", JSON(none_as_null=True)),
    UniqueConstraint("zone", "name"),
)

usages = Table(
    "usages",
    metadata,
    Column("uid", String, primary_key=True),
    Column("node", String, nullable=False),
    Column("project", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("name", String, nullable=False),
    Column("accelerator_type", String, nullable=False),
    Column("topology", String),
    Column("num_slices", Integer, nullable=False),
    Column("scheduling", JSON, nullable=False),
    Column("job", String),
    Column("create_time", Float, nullable=False),
    Column("end_time", Float),
)

quotas = Table(
    "quotas",
    metadata,
    Column("name", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("location", String, nullable=False),
    Column("generation", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("method", String, nullable=False, server_default=""),
    Column("limit", Integer, nullable=False),
    Column("unit", String, nullable=False, server_default="cores"),
    Column("create_time", Float, nullable=False),
)

quota_requests = Table(
    "quota_requests",
    metadata,
    Column("id", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("location", String, nullable=False),
    Column("generation", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("method", String, nullable=False, server_default=""),
    Column("limit", Integer, nullable=False),
    Column("unit", String, nullable=False, server_default="cores"),
    Column("reason", String, nullable=False),
    Column("state", String, nullable=False),
    Column("create_time", Float, nullable=False),
)

pods = Table(
    "pods",
    metadata,
    Column("name", String, primary_key=True),
    Column("broken", JSON, nullable=False),
    Column("create_time", Float, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("time", Float, nullable=False),
    Column("resource", String, nullable=False),
    Column("change", String, nullable=False),
    Column("message", String, nullable=False),
    sqlite_autoincrement=True,
)

HAS_FAULTS = text("nodes.faults != '[]'")
"""As SQLite must see it in an index and in a question alike."""
INDEXES = (
    Index("usages_open", usages.c.node, sqlite_where=usages.c.end_time.is_(None)),
    Index("usages_in_order", usages.c.project, usages.c.create_time),
    Index("nodes_with_faults", nodes.c.uid, sqlite_where=text("faults != '[]'")),
    Index("nodes_in_order", nodes.c.project, nodes.c.create_time),
    Index("nodes_in_all_order", nodes.c.create_time),
    Index("nodes_by_state", nodes.c.state),
    Index("nodes_by_queue", nodes.c.queued_resource, sqlite_where=nodes.c.queued_resource.is_not(None)),
    Index("nodes_by_prefix", nodes.c.node_prefix, sqlite_where=nodes.c.node_prefix.is_not(None)),
    Index("nodes_by_job", nodes.c.owner_job, sqlite_where=nodes.c.owner_job.is_not(None)),
    Index("nodes_by_address", nodes.c.first_host, nodes.c.num_hosts),
    Index("operations_in_order", operations.c.project, operations.c.create_time),
    Index("operations_held", operations.c.create_time, sqlite_where=operations.c.hold.is_not(None)),
    Index("queued_in_order", queued_resources.c.project, queued_resources.c.create_time),
    Index("queued_by_state", queued_resources.c.state),
    Index("jobs_by_state", jobs.c.state),
    Index("jobs_by_slice", jobs.c.slice),
)
"""For what is asked often: without them each question would be one to every row."""
ADDED: dict[int, tuple[Column[Any], ...]] = {
    2: (
        nodes.c.topology,
        nodes.c.num_slices,
        jobs.c.processes,
        jobs.c.hosts,
        jobs.c.workers,
        jobs.c.failed_worker,
    ),
    3: (
        nodes.c.queued_resource,
        nodes.c.node_prefix,
        nodes.c.api_version,
        jobs.c.topology,
        jobs.c.num_slices,
    ),
    4: (operations.c.api_version,),
    5: (nodes.c.faults, operations.c.hold, queued_resources.c.hold),
    6: (nodes.c.first_host, nodes.c.num_hosts),
    8: (
        nodes.c.placement,
        jobs.c.plan,
        jobs.c.attempt,
        jobs.c.attempts,
        jobs.c.waits,
        jobs.c.notice_time,
        api_faults.c.at_step,
    ),
    11: (
        reservations.c.placement,
        quotas.c.method,
        quotas.c.unit,
        quota_requests.c.method,
        quota_requests.c.unit,
        schedules.c.indices,
    ),
}
"""Which columns each version of the schema has added to those before it."""
RENAMED: dict[int, tuple[tuple[str, Column[Any]], ...]] = {
    11: (("region", quotas.c.location), ("region", quota_requests.c.location)),
}
"""Which columns were called otherwise before a version of the schema."""
