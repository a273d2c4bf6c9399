#pragma once

#include "accrue/accum/accumulator.h"

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace accrue {

/// The state of an Accumulator in libtorch's file format, next to a model and its optimizer:
///
///   torch::serialize::OutputArchive archive;
///   accrue::write(acc.state(), archive);
///   archive.save_to("accumulator.pt");
void write(const AccumulatorState& state, torch::serialize::OutputArchive& archive);

/// Throws a usage Error naming the first entry that is missing or does not fit the others.
AccumulatorState read_accumulator_state(torch::serialize::InputArchive& archive);

}  // namespace accrue
