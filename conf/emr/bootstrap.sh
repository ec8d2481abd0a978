#!/usr/bin/env bash
# Bootstrap action of an EMR cluster (EC2), on every node: bootstrap.sh s3://BUCKET/tracelake-VERSION-….whl
# Beside the wheel lie submit.py and spark.properties, from conf/ and conf/emr/.
# EMR's own Spark is older than 4.1; this brings the Spark that tracelake is tested with, and uses EMR for its YARN.
set -euo pipefail

wheel=$1
home=/opt/tracelake
sudo mkdir -p "$home"
sudo chown "$(id -un)" "$home"
sudo dnf install --quiet --assumeyes python3.11 python3.11-pip
python3.11 -m venv "$home/venv"
for file in "$(basename "$wheel")" submit.py spark.properties; do
  aws s3 cp "$(dirname "$wheel")/$file" "$home/"
done
"$home/venv/bin/pip" install --quiet "$home/$(basename "$wheel")[lake,reports,s3]"
TRACELAKE_JARS="$home/jars" "$home/venv/bin/python" -m tracelake.pipelines.jars --s3
