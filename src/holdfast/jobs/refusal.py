"""What a file asks for that cannot be done here: by this version, or with these settings.

Never here: what is wrong with a file (the document's own checks say that).
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.authoring.yaml.document import Document, Job, Resources

_NOT_YET = "jobs are not placed on workers by what they ask for yet, so it could not be kept"


def unplaced(document: Document) -> list[str]:
    """What it asks of workers and pools. A file that does is right, but cannot be run yet."""
    return [problem for job in document.jobs for problem in _unplaced(job)]


def _unplaced(job: Job) -> Iterator[str]:
    where = f"line {job.at.line}, job {job.id!r}"
    if any(label.expressions for label in job.labels):
        yield f"{where}: runs-on asks for labels by an expression, and {_NOT_YET}. For now write them out."
    if job.resources != Resources():
        yield f"{where}: it asks for resources, and {_NOT_YET}. For now leave 'resources' out."
    if job.pools:
        yield f"{where}: it takes of pools, and {_NOT_YET}. For now leave 'pools' out."


def unstored(document: Document, blobs: str) -> list[str]:
    """Outputs that are to last in S3, where large payloads do not go there. `blobs` is the setting of that name."""
    if blobs.startswith("s3://"):
        return []
    return [
        f"line {output.at.line}, job {job.id!r}: the output {output.name!r} asks for 'storage: s3', and large payloads go"
        f" to {blobs!r} here. Set HOLDFAST_BLOBS=s3://BUCKET, or write 'storage: local'."
        for job in document.jobs
        for output in job.outputs
        if output.storage == "s3"
    ]
