#include "verify/diagnosis.h"

#include <algorithm>
#include <cmath>

#include "verify/text.h"

namespace accrue::proof {
namespace {

/// A low dtype in the graph explains differences up to its own rounding, and some.
constexpr double explained_by_low_precision = 0.1;

bool same(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(std::abs(a), std::abs(b));
}

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
                    "{sum, count}, not {mean, 1}"}};
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

Explanation by_batch_norms(const Observations& seen) {
  const bool found_layers = !seen.batch_norms.empty();
  const bool vanished_frozen = seen.frozen && !seen.frozen->exceeds();
  const bool vanished = seen.evaluation && !seen.evaluation->exceeds();
  if (!(found_layers && vanished_frozen) && !(vanished && (found_layers || seen.buffers_moved)))
    return {};
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

std::string shares_text(const std::vector<double>& shares) {
  std::string text;
  for (std::size_t i = 0; i < shares.size() && i < 8; ++i)
    text += (i == 0 ? "" : ", ") + number(shares[i]);
  return shares.size() > 8 ? text + ", ..." : text;
}

bool only_last_counts(const AddedUp& added) {
  const double much = 0.5, little = std::max(1e-3, 10 * added.tolerance);
  const auto first = std::ranges::find_if(added.shares, [&](double s) { return s > much; });
  if (first == added.shares.begin() || first == added.shares.end()) return false;
  const auto is_zero = [&](double share) { return std::abs(share) < little; };
  const auto is_one = [&](double share) { return std::abs(share - 1) < little; };
  return std::all_of(added.shares.begin(), first, is_zero) &&
         std::all_of(first, added.shares.end(), is_one);
}

/// Of parts that add up to the whole: what training made of them.
Diagnosis by_training(const Observations& seen) {
  const std::string sound = "the parts' gradients, each by itself, add up to the whole's, " +
                            digits(seen.multiple.residual);
  if (exceeds(seen.kernels))
    return {Cause::unknown,
            {sound,
             "in one pass over all samples accrue's operations give another gradient than ATen's: "
             "they differ by " +
                 number(seen.kernels->relative_error) + ", most in " + seen.kernels_parameter +
                 ", whose gradient is " + number(seen.kernels_factor) + " times ATen's",
             "so a kernel is at fault, and no split"}};
  if (!seen.added_up) return {Cause::unknown, {sound, "what differs is: " + seen.split_name}};
  const AddedUp& added = *seen.added_up;
  if (!seen.keeps_sums && added.residual <= added.sum_rounding)
    return {Cause::precision,
            {sound, "the sum that training keeps of them loses " + number(added.residual) +
                        ", which its precision may (" + number(added.sum_rounding) + ")"}};
  if (added.residual <= added.tolerance)
    return {Cause::unknown,
            {sound, "training's sum is that of its parts, " + digits(added.residual) +
                        ", so accrue's operations give another gradient of a part than ATen's"}};
  if (added.multiple.matches)
    return {Cause::normalization,
            {sound, "training's gradient is " + number(added.multiple.factor) +
                        " times their sum, " + digits(added.multiple.residual)}};
  if (added.span.matches && only_last_counts(added))
    return {
        Cause::zeroed_mid_window,
        {sound, "training's gradient is that of the last of them alone, " +
                    digits(added.span.residual) + ": each counts by " + shares_text(added.shares)}};
  if (added.span.matches)
    return {
        Cause::weighting,
        {sound, "training's gradient is a weighted sum of them, " + digits(added.span.residual) +
                    ": each counts by " + shares_text(added.shares)}};
  return {Cause::unknown,
          {sound, "what differs is what training makes of them: " + seen.split_name +
                      " (no weighted sum of them leaves less than " + number(added.span.residual) +
                      " of it)"}};
}

Explanation by_combination(const Observations& seen) {
  if (seen.parts_add_up) return by_training(seen);
  if (seen.mean_as_sum.matches)
    return Diagnosis{Cause::weighting,
                     {"the gradient of the whole is the mean of its parts', " +
                          digits(seen.mean_as_sum.residual) + ", and not their sum",
                      "the loss returns a mean in place of the sum: leave out its division"}};
  if (seen.multiple.matches)
    return Diagnosis{Cause::normalization,
                     {"the gradient of the whole is " + number(seen.multiple.factor) +
                      " times the sum of its parts', " + digits(seen.multiple.residual)}};
  if (seen.span.matches)
    return Diagnosis{Cause::weighting,
                     {"the gradient of the whole is a weighted sum of its parts', " +
                          digits(seen.span.residual) + ", with weights other than 1",
                      "each sample is differentiated rightly, but counted differently in a part"}};
  return {};
}

/// Masks that no generator and no sample determine.
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

/// What the measurements speak against, cause by cause.
std::vector<std::string> ruled_out(const Observations& seen) {
  std::vector<std::string> out;
  const auto rule = [&](Cause cause, bool is_out, const std::string& why) {
    if (is_out) out.push_back(std::string(to_string(cause)) + ": " + why);
  };
  rule(Cause::nondeterminism, vanishes(seen.repeated),
       "one pass, run twice from the same seed, is the same");
  const bool weights_agree = same(seen.weight, seen.weight_of_parts, weight_tolerance);
  rule(Cause::weighting,
       weights_agree && !seen.mean_as_sum.matches && (seen.parts_add_up || !seen.span.matches) &&
           !(seen.added_up && seen.added_up->span.matches),
       "weights add up, and no weighted sum of the parts explains the difference");
  rule(Cause::dropout, vanishes(seen.reseeded), "another seed draws no other masks");
  rule(Cause::dropout, !seen.reseeded && exceeds(seen.evaluation),
       "in evaluation mode the difference stays");
  rule(Cause::batchnorm, seen.batch_norms.empty() && !seen.buffers_moved,
       "nothing normalises by the batch");
  rule(Cause::batchnorm, !seen.batch_norms.empty() && exceeds(seen.frozen),
       "with batch normalisations on fixed statistics the difference stays");
  rule(Cause::normalization,
       (seen.parts_add_up || !seen.multiple.matches) &&
           !(seen.added_up && seen.added_up->multiple.matches),
       "no constant factor explains the difference");
  const auto& doubled = seen.relative_error_in_double;
  rule(Cause::precision, doubled && *doubled > shrunk_in_double,
       "in fp64 the difference stays (" + (doubled ? number(*doubled) : "") + ")");
  rule(Cause::batch_coupled_loss, seen.parts_add_up, "the parts' gradients add up to the whole's");
  return out;
}

Diagnosis batch_coupled(const Observations& seen) {
  Diagnosis found{Cause::batch_coupled_loss, {loss_sums(seen)}};
  found.evidence.push_back(
      "no combination of the parts' gradients gives that of the whole (the best leaves " +
      number(seen.span.residual) + " of it)");
  if (seen.relative_error_in_double)
    found.evidence.push_back("in fp64 the difference stays (" +
                             number(*seen.relative_error_in_double) + ")");
  return found;
}

/// Evidence that leaves room for other causes: all of them are named.
Diagnosis by_layers_and_weights(const Observations& seen) {
  Diagnosis result;
  for (const auto explain : {by_weights, by_seed, by_batch_norms}) {
    Explanation found = explain(seen);
    if (!found) continue;
    if (result.cause == Cause::none) {
      result = std::move(*found);
    } else if (found->cause != Cause::batchnorm || !seen.batch_norms.empty()) {
      // Buffers that move are no evidence beside another cause, since the mode changes both.
      result.besides.push_back(found->cause);
      result.evidence.insert(result.evidence.end(), found->evidence.begin(), found->evidence.end());
    }
  }
  return result;
}

std::string factor_text(const LoopObservations& seen) {
  const double factor = seen.multiple.factor, parts = static_cast<double>(seen.micro_batches);
  const double close = 1e-3;
  if (same(factor, seen.total_weight, close)) return "the total weight: a sum in place of the mean";
  if (same(factor, parts, close))
    return "the number of micro-batches: the sum of their means, not divided";
  if (same(factor, 1 / parts, close))
    return "1 / the number of micro-batches: divided once too often";
  return "a constant factor";
}

Explanation by_watching(const LoopObservations& seen) {
  const std::string of = " of " + std::to_string(seen.micro_batches);
  if (seen.stepped_before >= 0)
    return Diagnosis{Cause::stepped_mid_window,
                     {"parameter " + seen.stepped_parameter + " had changed when backward " +
                          std::to_string(seen.stepped_before + 1) + of + " began",
                      "call step() once, after the last micro-batch"}};
  // A loop that keeps its sums elsewhere has nothing in .grad either.
  if (seen.zeroed_before >= 0 && (seen.saw_sums || seen.tail.matches)) {
    Diagnosis found{Cause::zeroed_mid_window,
                    {"the sum in .grad of " + seen.zeroed_parameter + " was gone when backward " +
                     std::to_string(seen.zeroed_before + 1) + of + " began"}};
    if (seen.tail.matches)
      found.evidence.push_back("what is left is the gradient of micro-batches from " +
                               std::to_string(seen.tail_begins + 1) + " on, " +
                               digits(seen.tail.residual));
    return found;
  }
  return {};
}

/// Rounding is the explanation only where it leaves clearly less than any that is exact.
Explanation by_low_precision(const LoopObservations& seen) {
  const double others =
      std::min({seen.multiple.residual, seen.mean_of_means.residual, seen.tail.residual});
  if (!seen.low_precision.matches || seen.low_precision.residual > others / 2) return {};
  return Diagnosis{Cause::precision,
                   {"adding the micro-batches' gradients in " + seen.gradient_dtype +
                    " gives the loop's gradient, " + digits(seen.low_precision.residual)}};
}

Explanation by_fit(const LoopObservations& seen) {
  if (seen.multiple.matches)
    return Diagnosis{
        Cause::normalization,
        {"the loop's gradient is " + number(seen.multiple.factor) + " times the true one, " +
         digits(seen.multiple.residual) + ": " + factor_text(seen)}};
  if (seen.mean_of_means.matches) {
    Diagnosis found{Cause::weighting,
                    {"the loop's gradient is the mean of the micro-batches' means, " +
                     digits(seen.mean_of_means.residual) +
                     ", which is not the batch's mean where lengths differ"}};
    if (!same(seen.mean_of_means.factor, 1, 1e-3))
      found.evidence.push_back("and off by a factor of " + number(seen.mean_of_means.factor));
    return found;
  }
  if (seen.tail.matches)
    return Diagnosis{
        Cause::zeroed_mid_window,
        {"the loop's gradient is that of micro-batches from " +
         std::to_string(seen.tail_begins + 1) + " of " + std::to_string(seen.micro_batches) +
         " on alone, " + digits(seen.tail.residual)}};
  if (seen.span.matches)
    return Diagnosis{Cause::weighting,
                     {"the loop's gradient is a weighted sum of the micro-batches', " +
                          digits(seen.span.residual),
                      "each counts by this multiple of its due: " + shares_text(seen.shares)}};
  return {};
}

}  // namespace

Diagnosis diagnose(const Observations& seen) {
  if (const Explanation found = by_repetition(seen)) return *found;
  if (!seen.split.exceeds()) return {};
  Diagnosis result = by_layers_and_weights(seen);
  for (const auto explain : {by_combination, by_precision, by_masks}) {
    if (result.cause != Cause::none) break;
    if (Explanation found = explain(seen)) result = std::move(*found);
  }
  if (result.cause == Cause::none) result = batch_coupled(seen);
  result.ruled_out = ruled_out(seen);
  std::erase_if(result.ruled_out, [&](const std::string& line) {
    return line.starts_with(std::string(to_string(result.cause)) + ':');
  });
  result.evidence.insert(result.evidence.begin(), first_finding(seen.split));
  return result;
}

Diagnosis diagnose_loop(const LoopObservations& seen) {
  if (!seen.difference.exceeds()) return {};
  Diagnosis result;
  if (Explanation found = by_watching(seen)) {
    result = *found;
  } else if (seen.no_gradient) {
    result = {Cause::zeroed_mid_window,
              {"no gradient is left in .grad of any parameter after the loop",
               "clear gradients before the first micro-batch, not after the last"}};
  } else if (seen.repeated && seen.repeated->exceeds()) {
    result = {Cause::nondeterminism,
              {"the loop, run twice from the same seed, differs by " +
               number(seen.repeated->relative_error)}};
  } else if (Explanation rounded = by_low_precision(seen)) {
    result = *rounded;
  } else if (Explanation fitted = by_fit(seen)) {
    result = *fitted;
  } else if (seen.parameters_changed) {
    result = {Cause::stepped_mid_window,
              {"parameters differ after the loop, and its gradient is no combination of those of "
               "its micro-batches at the parameters before it"}};
  } else {
    result = {Cause::weighting,
              {"the loop's gradient is no combination of the gradients of its micro-batches (the "
               "best leaves " +
               number(seen.span.residual) +
               " of it): it clips, scales by element, or computes another loss"}};
  }
  result.evidence.insert(result.evidence.begin(),
                         "the loop's gradient and that of one pass differ "
                         "by " +
                             number(seen.difference.relative_error));
  return result;
}

}  // namespace accrue::proof
