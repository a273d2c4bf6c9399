#pragma once

#include <utility>
#include <vector>

#include "accrue_program.h"
#include "support/faults.h"

namespace accrue::testing {

/// The exit status of a program that was stopped by a signal.
inline constexpr int kInterrupted = 130;

/// Runs the command line with faults at named points of its work (support/faults.h).
class FaultyProgram : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  /// The words of the command line after those that arm its faults.
  Words with(const std::vector<Fault>& faults, const Words& arguments) const {
    Words words{"/usr/bin/env"};
    for (const Words& part : {armed(faults, folder_), Words{ACCRUE_PROGRAM}, arguments})
      words.insert(words.end(), part.begin(), part.end());
    return words;
  }
  Program start_with(const std::vector<Fault>& faults, const Words& arguments) const {
    return {folder_, with(faults, arguments)};
  }
  Program::Result accrue_with(const std::vector<Fault>& faults, const Words& arguments) const {
    return start_with(faults, arguments).wait();
  }

  /// The arguments of a run that takes minutes, if nothing ends it.
  static Words long_run(const std::string& run, const Words& more = {}) {
    Words words{"train", "run.toml", "--run.steps=1000000", "--run.out=" + run};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// A signal in the middle of a step of four micro-batches.
  static Fault stops_in_step(std::int64_t step, const std::string& signal = "TERM") {
    return {.at = "micro-batch", .action = signal, .step = step, .count = 2};
  }
  /// A pause before that point.
  static Fault pauses_in_step(std::int64_t step, const std::string& pause) {
    return {.at = "micro-batch", .action = "pause:" + pause, .step = step};
  }

  /// The sorted names of the entries of a folder of checkpoints.
  std::vector<std::string> checkpoints_of(const std::string& run) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / run / "checkpoints"))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
};

}  // namespace accrue::testing
