#include "verify/diagnosis.h"

#include <algorithm>
#include <cmath>

#include "verify/text.h"

namespace accrue::proof {
namespace {

/// A low dtype in the graph explains differences up to a multiple of its own rounding.
constexpr double explained_by_low_precision = 0.1;

std::string first_finding(const Difference& split) {
  return "the accumulated gradient and that of one pass differ by " + number(split.relative_error) +
         ", " + number(split.ratio) + " times the bound";
}

std::string loss_sums(const Observations& seen) {
  return "the loss of the whole is " + number(seen.loss_sum) + ", its parts add up to " +
         number(seen.loss_sum_of_parts);
}

using Explanation = std::optional<Diagnosis>;

Explanation by_repetition(const Observations& seen) {
  if (!seen.repeated || !seen.repeated->exceeds()) return {};
  return Diagnosis{Cause::nondeterminism,
                   {"one pass over the same samples, run twice from the same seed, differs by " +
                    number(seen.repeated->relative_error)}};
}

Explanation by_weights(const Observations& seen) {
  if (same(seen.weight, seen.weight_of_parts, weight_tolerance)) return {};
  return Diagnosis{Cause::weighting,
                   {"weights do not add up: the whole reports " + number(seen.weight) +
                        ", its parts together " + number(seen.weight_of_parts),
                    "a Loss is the sum over its terms and how many there were: return "
                    "{sum, count}, not {mean, 1}; if it does, the parts lack samples, or have "
                    "some twice"}};
}

Explanation by_seed(const Observations& seen) {
  if (!seen.reseeded || !seen.reseeded->exceeds()) return {};
  Diagnosis found{Cause::dropout,
                  {"one pass repeats to the bit from the same seed, and differs by " +
                   number(seen.reseeded->relative_error) + " from another"}};
  if (!seen.dropouts.empty()) found.evidence.push_back("dropout in " + first_names(seen.dropouts));
  if (seen.evaluation && !seen.evaluation->exceeds())
    found.evidence.push_back("in evaluation mode the difference is gone (" +
                             number(seen.evaluation->relative_error) + ")");
  return found;
}

/// An operation between the loss and `.grad` is not linear, and acts on each pass separately.
Explanation by_clipping(const Observations& seen) {
  if (!seen.halved || *seen.halved <= most_unscaled) return {};
  return Diagnosis{
      Cause::clip_per_micro_batch,
      {"half the loss does not give half the gradient (off by " + number(*seen.halved) +
       "): a hook clips, clamps or normalises what each pass gives"}};
}

/// Whether a forward pass leaves state for the next one: with buffers restored before each, parts
/// add up.
bool carries_state(const Observations& seen) {
  return seen.buffers_moved && seen.parts_add_up && seen.batch_norms.empty() &&
         !seen.parts_differ_by_design && !(seen.kernels && seen.kernels->exceeds());
}

Explanation by_state(const Observations& seen) {
  if (!carries_state(seen)) return {};
  return Diagnosis{Cause::carried_state,
                   {"a forward pass in training mode moves buffers, and nothing normalises by the "
                    "batch",
                    "with buffers as they were before each of them, the parts' gradients add up to "
                    "the whole's"}};
}

Explanation by_batch_norms(const Observations& seen) {
  if (carries_state(seen)) return {};
  const bool found_layers = !seen.batch_norms.empty();
  const bool vanished_frozen = seen.frozen && !seen.frozen->exceeds();
  const bool vanished = seen.evaluation && !seen.evaluation->exceeds();
  // Exact normalisation also changes buffers, but not by the micro-batch's statistics.
  const bool moved = seen.buffers_moved && !seen.parts_differ_by_design;
  if (!(found_layers && vanished_frozen) && !(vanished && (found_layers || moved))) return {};
  Diagnosis found{Cause::batchnorm, {}};
  if (found_layers)
    found.evidence.push_back("batch normalisation in " + first_names(seen.batch_norms));
  if (seen.buffers_moved)
    found.evidence.push_back("running statistics move in a forward pass in training mode");
  found.evidence.push_back(vanished_frozen
                               ? "with these layers on fixed statistics the difference is gone (" +
                                     number(seen.frozen->relative_error) + ")"
                               : "in evaluation mode the difference is gone (" +
                                     number(seen.evaluation->relative_error) + ")");
  return found;
}

bool exceeds(const std::optional<Difference>& difference) {
  return difference && difference->exceeds();
}
bool vanishes(const std::optional<Difference>& difference) {
  return difference && !difference->exceeds();
}

/// The residual of a fit relative to that without it, if rounding leaves a residual in any case.
constexpr double most_left_beside_rounding = 0.5;
/// The residual that repeating the rounding leaves: only its unknown order.
constexpr double most_left_by_rounding_again = 0.25;

bool leaves_at_most(const std::optional<Fit>& fit, double residual) {
  return fit && fit->residual <= residual;
}

/// A fit that leaves most of the residual without it explains nothing, however small that is.
/// Biased rounding is partly a factor, so coarse sums need a better fit.
bool improves(const std::optional<Fit>& fit, const SumEvidence& added) {
  const double share = added.keeps_sums ? most_left_beside_rounding : most_left_by_rounding_again;
  return leaves_at_most(fit, share * added.residual);
}

/// The residual allowed for a fit of training's sum if sums or passes round differently.
double most_left_by_fit(const SumEvidence& added) {
  const double of_sums = added.keeps_sums ? 0 : added.sum_rounding;
  return std::max(added.tolerance, std::min(std::max(of_sums, added.pass_rounding),
                                            most_left_beside_rounding * added.residual));
}

/// The multiple of their sum explains it, and no combination does so clearly better.
bool multiple_explains(const SumEvidence& added) {
  if (!improves(added.multiple, added)) return false;
  if (leaves_at_most(added.multiple, added.tolerance)) return true;
  const bool combination_is_better =
      added.multiple &&
      leaves_at_most(added.span, most_left_beside_rounding * added.multiple->residual);
  return leaves_at_most(added.multiple, most_left_by_fit(added)) && !combination_is_better;
}

bool is_the_sum(const SumEvidence& added) { return added.residual <= added.tolerance; }

bool only_last_counts(const SumEvidence& added) {
  const double much = 0.5;
  const double little = added.keeps_sums ? std::max(1e-3, 10 * added.tolerance) : 0.1;
  const auto first = std::ranges::find_if(added.shares, [&](double s) { return s > much; });
  if (first == added.shares.begin() || first == added.shares.end()) return false;
  const auto is_zero = [&](double share) { return std::abs(share) < little; };
  const auto is_one = [&](double share) { return std::abs(share - 1) < little; };
  return std::all_of(added.shares.begin(), first, is_zero) &&
         std::all_of(first, added.shares.end(), is_one);
}

Explanation by_rounding_again(const SumEvidence& added) {
  if (added.keeps_sums || !added.residual_in_bf16 ||
      *added.residual_in_bf16 > most_left_by_rounding_again * added.residual)
    return {};
  return Diagnosis{Cause::precision,
                   {"the sum that training keeps loses " + number(added.residual) +
                    ", and their sum rounded to bf16 one by one is the same, " +
                    digits(*added.residual_in_bf16)}};
}

Explanation by_fit_of_parts(const SumEvidence& added) {
  if (multiple_explains(added))
    return Diagnosis{Cause::normalization,
                     {"training's gradient is " + number(added.multiple->factor) +
                      " times their sum, " + digits(added.multiple->residual)}};
  if (!improves(added.span, added) || !leaves_at_most(added.span, most_left_by_fit(added)))
    return {};
  const std::string shares =
      ", " + digits(added.span->residual) + ": each counts by " + numbers(added.shares);
  if (only_last_counts(added))
    return Diagnosis{Cause::zeroed_mid_window,
                     {"training's gradient is that of the last of them alone" + shares}};
  return Diagnosis{Cause::weighting, {"training's gradient is a weighted sum of them" + shares}};
}

Explanation by_rounding_of_sums(const SumEvidence& added) {
  if (added.keeps_sums || added.residual > added.sum_rounding) return {};
  return Diagnosis{Cause::precision,
                   {"the sum that training keeps of them loses " + number(added.residual) +
                    ", which its precision may (" + number(added.sum_rounding) + ")"}};
}

std::string text_of_fits(const SumEvidence& added) {
  if (!added.span) return "too many, or too small, for a fit by their weighted sums";
  return "no weighted sum of them leaves less than " + number(added.span->residual) + " of it";
}

/// For parts that add up to the whole: explains training's result.
Diagnosis by_training(const Observations& seen) {
  Diagnosis found{Cause::unknown,
                  {"the parts' gradients, each by itself, add up to the whole's" +
                   (seen.multiple ? ", " + digits(seen.multiple->residual) : "")}};
  const auto add = [&](const std::string& line) { found.evidence.push_back(line); };
  if (exceeds(seen.kernels)) {
    found.place = Place::operations;
    add("in one pass over all samples accrue's operations give another gradient than ATen's: they "
        "differ by " +
        number(seen.kernels->relative_error) + ", most in " + seen.kernels_parameter +
        ", whose gradient is " + number(seen.kernels_factor) + " times ATen's");
    add("so a kernel is at fault, and no split");
    return found;
  }
  found.place = Place::window;
  add("what differs is: " + seen.split_name);
  if (!seen.added_up) return found;
  const bool sums_are_as_coarse = !seen.added_up->keeps_sums && vanishes(seen.kernels);
  if (is_the_sum(*seen.added_up) && !sums_are_as_coarse) {
    found.place = Place::operations;
    add("training's sum is that of its parts, " + digits(seen.added_up->residual) +
        ", so accrue's operations give another gradient of a part than ATen's");
    return found;
  }
  const Diagnosis of_sum = diagnose_sum(*seen.added_up);
  found.cause = of_sum.cause;
  found.evidence.insert(found.evidence.end(), of_sum.evidence.begin(), of_sum.evidence.end());
  return found;
}

bool matches(const std::optional<Fit>& fit) { return fit && fit->matches; }

Explanation by_combination(const Observations& seen) {
  if (seen.parts_add_up) return by_training(seen);
  if (matches(seen.mean_as_sum))
    return Diagnosis{Cause::weighting,
                     {"the gradient of the whole is the mean of its parts', " +
                          digits(seen.mean_as_sum->residual) + ", and not their sum",
                      "the loss returns a mean in place of the sum: leave out its division"}};
  if (matches(seen.multiple))
    return Diagnosis{Cause::normalization,
                     {"the gradient of the whole is " + number(seen.multiple->factor) +
                      " times the sum of its parts', " + digits(seen.multiple->residual)}};
  if (matches(seen.span))
    return Diagnosis{Cause::weighting,
                     {"the gradient of the whole is a weighted sum of its parts', " +
                          digits(seen.span->residual) + ", with weights other than 1",
                      "each sample is differentiated rightly, but counted differently in a part"}};
  return {};
}

/// Masks that neither a generator nor a sample determines.
Explanation by_masks(const Observations& seen) {
  if (!vanishes(seen.evaluation) || seen.buffers_moved || !seen.batch_norms.empty()) return {};
  return Diagnosis{
      Cause::dropout,
      {"in evaluation mode the difference is gone (" + number(seen.evaluation->relative_error) +
           "), and nothing normalises by the batch",
       "another seed of libtorch's generator changes nothing: the masks follow the "
       "place in the micro-batch, and not the sample"}};
}

Explanation by_precision(const Observations& seen) {
  const auto& doubled = seen.relative_error_in_double;
  if (doubled && *doubled <= shrunk_in_double * seen.split.relative_error)
    return Diagnosis{Cause::precision,
                     {"in fp64 the same comparison differs by " + number(*doubled) +
                      ", so the difference is rounding and nothing else"}};
  const bool stays = doubled && *doubled > shrunk_in_double;
  if (!stays && !seen.low_precision.empty() &&
      seen.split.relative_error < explained_by_low_precision &&
      same(seen.loss_sum, seen.loss_sum_of_parts, explained_by_low_precision))
    return Diagnosis{Cause::precision,
                     {"the loss is computed in " + seen.low_precision +
                      ", below the parameters' dtype, and the difference is of that size"}};
  return {};
}

/// Whether a fit of this kind was made of the difference, and does not explain it.
bool is_ruled_out(const Observations& seen, std::optional<Fit> SumEvidence::*of_training,
                  const std::optional<Fit>& of_whole) {
  if (!seen.parts_add_up) return of_whole && !of_whole->matches;
  if (!seen.added_up) return false;
  if (is_the_sum(*seen.added_up)) return true;
  const std::optional<Fit>& fit = (*seen.added_up).*of_training;
  return fit && !leaves_at_most(fit, most_left_by_fit(*seen.added_up));
}

/// The causes ruled out by the measurements, one by one.
std::vector<std::string> ruled_out(const Observations& seen) {
  std::vector<std::string> out;
  const auto rule = [&](Cause cause, bool is_out, const std::string& why) {
    if (is_out) out.push_back(std::string(to_string(cause)) + ": " + why);
  };
  rule(Cause::nondeterminism, vanishes(seen.repeated),
       "one pass, run twice from the same seed, is the same");
  const bool weights_agree = same(seen.weight, seen.weight_of_parts, weight_tolerance);
  rule(Cause::weighting,
       weights_agree && !matches(seen.mean_as_sum) &&
           is_ruled_out(seen, &SumEvidence::span, seen.span),
       "weights add up, and no weighted sum of the parts explains the difference");
  rule(Cause::dropout, vanishes(seen.reseeded), "another seed draws no other masks");
  rule(Cause::dropout, !seen.reseeded && exceeds(seen.evaluation),
       "in evaluation mode the difference stays");
  rule(Cause::batchnorm, seen.batch_norms.empty() && !seen.buffers_moved,
       "nothing normalises by the batch");
  rule(Cause::batchnorm, !seen.batch_norms.empty() && exceeds(seen.frozen),
       "with batch normalisations on fixed statistics the difference stays");
  rule(Cause::normalization, is_ruled_out(seen, &SumEvidence::multiple, seen.multiple),
       "no constant factor explains the difference");
  const auto& doubled = seen.relative_error_in_double;
  rule(Cause::precision, doubled && *doubled > shrunk_in_double,
       "in fp64 the difference stays (" + (doubled ? number(*doubled) : "") + ")");
  rule(Cause::batch_coupled_loss, seen.parts_add_up, "the parts' gradients add up to the whole's");
  return out;
}

/// The separate parts do not add up to the whole, and none of the above explains it.
Diagnosis by_what_is_left(const Observations& seen) {
  Diagnosis found{Cause::batch_coupled_loss, {loss_sums(seen)}};
  if (seen.relative_error_in_double)
    found.evidence.push_back("in fp64 the difference stays (" +
                             number(*seen.relative_error_in_double) + ")");
  if (seen.span && !seen.parts_differ_by_design) {
    found.evidence.push_back(
        "no combination of the parts' gradients gives that of the whole (the best leaves " +
        number(seen.span->residual) + " of it)");
    return found;
  }
  found.cause = Cause::unknown;
  found.place = seen.is_complete ? Place::window : Place::not_searched;
  found.evidence.push_back(seen.parts_differ_by_design
                               ? "parts by themselves have other statistics than the window, so "
                                 "that theirs cannot tell the cause"
                               : "what differs is: " + seen.split_name +
                                     "; whether a combination of its parts' gradients gives that "
                                     "of the whole was not found out");
  return found;
}

/// Evidence that allows several causes: all of them are named.
Diagnosis by_layers_and_weights(const Observations& seen) {
  Diagnosis result;
  for (const auto explain : {by_weights, by_seed, by_batch_norms}) {
    Explanation found = explain(seen);
    if (!found) continue;
    if (result.cause == Cause::none) {
      result = std::move(*found);
    } else if (found->cause != Cause::batchnorm || !seen.batch_norms.empty()) {
      // Changed buffers are no evidence beside another cause, since the mode changes both.
      result.besides.push_back(found->cause);
      result.evidence.insert(result.evidence.end(), found->evidence.begin(), found->evidence.end());
    }
  }
  return result;
}

}  // namespace

bool same(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

Diagnosis diagnose_sum(const SumEvidence& added) {
  for (const auto explain : {by_rounding_again, by_fit_of_parts, by_rounding_of_sums})
    if (Explanation found = explain(added)) return *found;
  return {.cause = Cause::unknown,
          .evidence = {"their sum leaves " + number(added.residual) +
                       " of what training made of "
                       "them (" +
                       text_of_fits(added) + ")"},
          .place = Place::sums};
}

Diagnosis diagnose(const Observations& seen) {
  if (const Explanation found = by_repetition(seen)) return *found;
  if (!seen.split.exceeds()) return {};
  Diagnosis result = by_layers_and_weights(seen);
  for (const auto explain : {by_clipping, by_state, by_combination, by_precision, by_masks}) {
    if (result.cause != Cause::none) break;
    if (Explanation found = explain(seen)) result = std::move(*found);
  }
  if (result.cause == Cause::none) result = by_what_is_left(seen);
  result.ruled_out = ruled_out(seen);
  std::erase_if(result.ruled_out, [&](const std::string& line) {
    return line.starts_with(std::string(to_string(result.cause)) + ':');
  });
  result.evidence.insert(result.evidence.begin(), first_finding(seen.split));
  return result;
}

}  // namespace accrue::proof
