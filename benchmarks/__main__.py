"""``python -m benchmarks`` (make bench): run all benchmarks in turn; exit code 1 if a bar is missed."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "bench_kernels",
    "bench_exchange",
    "bench_stream",
    "bench_castle",
    "bench_stream_command",
    "bench_literature",
    "bench_generalization",
    "bench_subject",
    "bench_p_percent",
    "bench_audit",
    "bench_demo",
    "bench_first",
    "bench_wide",
    "bench_foreign",
    "bench_tclose",
    "bench_kanon",
    "bench_never_worse",
    "bench_scale",
    "bench_release",
    "bench_stages",
)


def main() -> int:
    """Run each benchmark in its own process, so that no benchmark warms up another."""
    missed = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            missed.append(name)
    print(f"bars missed in: {', '.join(missed)}" if missed else "all bars kept")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
