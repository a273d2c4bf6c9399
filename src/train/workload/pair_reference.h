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

/// Puts the reference's log-probabilities in the place of the stand-in: found in the cache of the
/// text, or made by the model, which is to be as training starts from it. Of several processes that
/// share the cache one makes them and the others wait. Throws a usage Error if one is not
/// finite, a runtime Error if what the cache holds is not what was written there.
void take_reference(Workload& work, const ShowProgress& show = {});

/// The log-probabilities of both sequences of each pair, by a model without training.
std::vector<double> log_probabilities_of_pairs(models::LanguageModel& model,
                                               const data::Source& pairs,
                                               const TellPairs& tell = {});

}  // namespace accrue::train
