#include "train/workload/pair_reference.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "accrue/core/error.h"
#include "core/checksum.h"
#include "core/words.h"
#include "data/fetch.h"
#include "data/referenced_pairs.h"
#include "data/text/tokens/text_cache.h"
#include "train/workload/model_digest.h"
#include "train/workload/reference_bytes.h"
#include "train/workload/text_tokenizer.h"

namespace accrue::train {
namespace {

/// Changes whenever the same model computes other values for the same pairs.
constexpr const char* reference_form = "reference 1";

/// Changes whenever the files store the same numbers differently.
constexpr const char* kept_form = "kept 2";

/// Identifies the model and how it computes.
std::string key_of(const Workload& work) {
  const ModelConfig& model = work.config.model;
  std::string shape(reference_form);
  for (const std::int64_t size : {model.layers, model.heads, model.kv_heads.value_or(0),
                                  model.width, model.context_or_default()})
    shape += " " + std::to_string(size);
  shape += " " + std::string(to_string(model.kind)) + " " +
           std::string(models::compute_words.of(work.config.precision.compute)) + " " +
           model.config_json;
  if (model.norm_eps) shape += c10::str(" ", *model.norm_eps);
  return checksum_of(shape + digest_of(*work.model));
}

/// The samples of each pass, which are about equally long.
std::vector<std::vector<std::int64_t>> passes_over(const data::Source& pairs) {
  constexpr std::int64_t tokens_at_once = 4096;
  std::vector<std::int64_t> order(static_cast<std::size_t>(pairs.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t one, std::int64_t other) {
    return pairs.tokens(one) < pairs.tokens(other);
  });
  std::vector<std::vector<std::int64_t>> passes;
  for (const std::int64_t pair : order) {
    const bool has_room =
        !passes.empty() && (std::ssize(passes.back()) + 1) * pairs.tokens(pair) <= tokens_at_once;
    if (!has_room) passes.emplace_back();
    passes.back().push_back(pair);
  }
  return passes;
}

void expect_finite_pair(const at::Tensor& of_pair, std::int64_t pair) {
  if (of_pair.isfinite().all().item<bool>()) return;
  throw usage_error("take the reference's log-probabilities", "finite ones",
                    "others for pair " + std::to_string(pair),
                    "a model.from without infinities, or leaving the line out");
}

std::string in_pairs(std::int64_t count) { return counted(count, "pair"); }

std::vector<double> kept_or_made(Workload& work, data::TextCache& cache, const data::Source& pairs,
                                 const std::string& key, const TellPairs& tell) {
  auto& model = dynamic_cast<models::LanguageModel&>(*work.model);
  std::optional<std::vector<double>> numbers;
  const data::FileHead kept =
      cache.file(checksum_of(kept_form + pairs.fingerprint() + key) + ".reference",
                 [&](const data::WriteBytes& write) {
                   numbers = log_probabilities_of_pairs(model, pairs, tell);
                   write(reference_to_bytes(*numbers));
                 });
  if (!numbers) numbers = reference_of_bytes(data::content_of(kept), pairs.size());
  if (numbers) return std::move(*numbers);
  throw runtime_error("read " + kept.path.string(), "the reference that was written there",
                      "other bytes", "removing it: it is made again");
}

/// `of` for the training and the held-out data.
Datasets with_references(const Datasets& pairs,
                         const std::function<data::Reference(const data::Source&)>& of) {
  Datasets sets{.train = data::with_reference(pairs.train, of(*pairs.train)), .val = nullptr};
  if (pairs.val) sets.val = data::with_reference(pairs.val, of(*pairs.val));
  return sets;
}

}  // namespace

void stand_in_for_reference(Workload& work) {
  if (work.config.loss.kind != models::LossKind::dpo) return;
  work.pairs = work.data;
  work.data = with_references(work.pairs, [key = key_of(work)](const data::Source&) {
    return data::Reference{.key = key};
  });
}

void take_reference(Workload& work, const ShowProgress& show) {
  if (!work.pairs.train) return;
  data::TextCache cache(text_cache_of(work.config));
  const TellPairs tell =
      counted_operation(show, {.name = "reading pairs with the reference", .in_words = in_pairs});
  work.data = with_references(work.pairs, [&, key = key_of(work)](const data::Source& pairs) {
    std::vector<double> numbers = kept_or_made(work, cache, pairs, key, tell);
    return data::Reference{
        .key = key, .log_probabilities = std::move(numbers), .remarks = cache.remarks()};
  });
}

std::vector<double> log_probabilities_of_pairs(models::LanguageModel& model,
                                               const data::Source& pairs, const TellPairs& tell) {
  std::vector<double> numbers(static_cast<std::size_t>(2 * pairs.size()));
  std::int64_t done = 0;
  for (const std::vector<std::int64_t>& pass : passes_over(pairs)) {
    const at::Tensor found =
        model.sequence_log_probabilities(data::fetch_as(pairs, pass, pass)).view({-1, 2});
    for (std::size_t i = 0; i < pass.size(); ++i) {
      const at::Tensor of_pair = found[static_cast<std::int64_t>(i)];
      expect_finite_pair(of_pair, pass[i]);
      for (std::int64_t sequence = 0; sequence < 2; ++sequence)
        numbers[static_cast<std::size_t>(2 * pass[i] + sequence)] =
            of_pair[sequence].item<double>();
    }
    done += std::ssize(pass);
    if (tell) tell(done, pairs.size());
  }
  return numbers;
}

}  // namespace accrue::train
