"""A bucket as Amazon's own client sees it: makes one, lists it, fetches from it."""

import json
import pathlib
import sys

import boto3
from botocore.config import Config

what, endpoint, bucket = sys.argv[1:4]
s3 = boto3.client(
    "s3",
    endpoint_url=endpoint,
    region_name="us-east-1",
    aws_access_key_id="test",
    aws_secret_access_key="test",
    config=Config(s3={"addressing_style": "path"}),
)

objects = lambda: [o for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for o in page.get("Contents", [])]

if what == "make":
    s3.create_bucket(Bucket=bucket)
elif what == "list":
    print(json.dumps({o["Key"]: [o["Size"], o["ETag"], o["LastModified"].isoformat()] for o in objects()}))
elif what == "fetch":
    root = pathlib.Path(sys.argv[4])
    for o in objects():
        path = root / o["Key"]
        path.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, o["Key"], str(path))
    uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    print(json.dumps({"unfinished": len(uploads)}))
