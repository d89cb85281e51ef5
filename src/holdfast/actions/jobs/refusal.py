"""The requests of a file that cannot be met here, with these settings.

Never here: what is wrong with a file (the document's own checks say that).
"""

from __future__ import annotations

from holdfast.actions.syntax.document import Document


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
