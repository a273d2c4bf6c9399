#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "accrue/train/config.h"

namespace accrue::cli {

/// Options of `accrue plan --ranks` for machines that need not exist, as typed; empty: not stated.
struct RankPlanArguments {
  std::int64_t nodes = 0;  ///< 0: not stated
  std::string memory, link, node_link, flops, disk;

  /// Whether one of them is stated, so that layouts are compared and nothing is measured of the
  /// config's run on this machine.
  bool any() const {
    return nodes != 0 || !memory.empty() || !link.empty() || !node_link.empty() || !flops.empty() ||
           !disk.empty();
  }
};

void add_rank_plan_options(CLI::App& verb, RankPlanArguments& arguments);

/// Compares the layouts of so many ranks, and prints them. `ranks` is 0 if it is not stated;
/// `image` as in train::EstimateOptions. Throws usage Errors for what is missing or wrong.
void print_rank_plan(const RankPlanArguments& arguments, std::int64_t ranks,
                     const std::vector<std::int64_t>& image, const train::Config& config,
                     bool json);

}  // namespace accrue::cli
