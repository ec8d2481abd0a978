"""What spark-submit starts: the command line, from the wheel given with --py-files. See docs/deployment.md.

spark-submit --master … --jars … --py-files tracelake-….whl conf/submit.py run --lake s3://bucket/lake
"""

from tracelake.__main__ import main

main()
