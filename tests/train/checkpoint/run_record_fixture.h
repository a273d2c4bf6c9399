#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/atomic_file.h"
#include "train/checkpoint/run_info.h"
#include "train/tiny_run.h"

namespace accrue::train::testing {

/// A run's run.json, written and read.
class RunRecordTest : public TinyRun {
 protected:
  RunInfo info() const {
    return {.config = config_,
            .command = {"accrue", "train", "\xff.toml"},
            .environment = environment_,
            .data = {.train = {text_}},
            .plan = plan_,
            .total_steps = 6,
            .parameters = 1000,
            .start = "start"};
  }
  RunDirectory run() const { return RunDirectory(folder_); }
  void write(const std::string& run_json) const { std::ofstream(run().run_file()) << run_json; }
  nlohmann::json written() const { return nlohmann::json::parse(read_file(run().run_file())); }

  Config config_ = [] {
    Config c;
    c.run.out = "runs/first";
    c.run.steps = 6;
    c.data.train = {"data/*.txt"};
    c.batch.samples = 8;
    c.precision.accumulate = accum::Accumulation::fixed;
    return c;
  }();
  RunEnvironment environment_{.versions = {{"accrue", "1"}, {"libtorch", "2"}},
                              .host = "here",
                              .processor = "A",
                              .isa = "AVX2",
                              .threads = 3,
                              .ranks = 2,
                              .libraries = {{"libm.so.6", "ab"}, {"libc.so.6", "cd"}},
                              .working_directory = "/work",
                              .commit = "c0ffee"};
  const data::DataFile text_{.path = "data/a.txt", .bytes = 100, .fingerprint = "0123456789abcdef"};
  nlohmann::json plan_ = {
      {"reason", "it is fast"},
      {"ranks",
       {{{"micro_batch", 4}, {"recompute", "full"}}, {{"micro_batch", 2}, {"recompute", "none"}}}}};
};

}  // namespace accrue::train::testing
