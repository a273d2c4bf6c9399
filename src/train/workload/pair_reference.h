#pragma once

#include <cstdint>
#include <vector>

#include "accrue/data/source.h"
#include "accrue/models/language_model.h"
#include "train/workload/workload.h"

namespace accrue::train {

/// Gives the data of a loss that compares with a reference (dpo) a stand-in for it, with which
/// shapes and times are those of training; other data stay as they are. The reference is the model
/// that training starts from, and the data's fingerprint names it.
void stand_in_for_reference(Workload& work);

/// Called with the number of pairs that a reference has read, and with their total.
using TellPairs = data::TellProgress;

/// Replaces the stand-in by the reference's log-probabilities: from the cache of the text, or
/// computed by the model, which must be in its initial state. If several processes share the cache,
/// one computes them and the others wait. Throws a usage Error if one is not finite, a runtime
/// Error if the cache does not have what was written to it.
void take_reference(Workload& work, const TellPairs& tell = {});

/// The log-probabilities of both sequences of each pair, by a model without training.
std::vector<double> log_probabilities_of_pairs(models::LanguageModel& model,
                                               const data::Source& pairs,
                                               const TellPairs& tell = {});

}  // namespace accrue::train
