#include "accrue/data/own_source.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <new>
#include <utility>

#include "accrue/core/error.h"
#include "core/checksum.h"
#include "core/words.h"
#include "data/own_rows.h"
#include "data/source_errors.h"

namespace accrue::data {
namespace {

void check(const OwnSamples& samples) {
  if (samples.size <= 0)
    throw usage_error(kOwnSamples, "a number of samples above 0", std::to_string(samples.size),
                      "OwnSamples::size");
  if (!samples.fetch || samples.identity.empty())
    throw usage_error(kOwnSamples, "a function that makes them, and what identifies them",
                      samples.fetch ? "no identity" : "no function",
                      "OwnSamples::fetch and OwnSamples::identity");
  if (samples.tokens <= 0)
    throw usage_error(kOwnSamples, "at least one token in a sample", std::to_string(samples.tokens),
                      "OwnSamples::tokens = 1 if there are none");
}

class Own final : public Source {
 public:
  explicit Own(OwnSamples samples) : samples_(std::move(samples)) { check(samples_); }

  std::int64_t size() const override { return samples_.size; }
  std::int64_t vocab() const override { return samples_.vocab; }
  std::int64_t tokens(std::int64_t index) const override {
    require_index(index, size());
    return samples_.tokens;
  }
  std::optional<std::int64_t> uniform_tokens() const override { return samples_.tokens; }
  std::string fingerprint() const override {
    return "own: " + std::to_string(samples_.size) + " samples, " + samples_.identity;
  }

  /// A function that ignores its indices is detected by samples far from each other.
  std::vector<std::string> remarks() const override {
    if (size() < 3) return {};
    const std::int64_t first = 0, middle = size() / 2, last = size() - 1;
    const at::Tensor inputs = fetch({&first, 1}).inputs;
    if (!at::equal(inputs, fetch({&middle, 1}).inputs) ||
        !at::equal(inputs, fetch({&last, 1}).inputs))
      return {};
    return {"samples 0, " + std::to_string(middle) + " and " + std::to_string(last) +
            " have the same inputs: a function that makes samples is to look at the indices that "
            "it gets"};
  }

  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    for (const std::int64_t index : indices) require_index(index, size());
    batch::MicroBatch made = made_by_program(indices);
    const auto rows = static_cast<std::int64_t>(indices.size());
    check_rows(made, rows);
    made.tokens = rows * samples_.tokens;
    return made;
  }

 private:
  /// Exceptions of the program are reported with the samples that it had to make; the caller
  /// handles lack of memory.
  batch::MicroBatch made_by_program(std::span<const std::int64_t> indices) const {
    try {
      return samples_.fetch(indices);
    } catch (const Error&) {
      throw;
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      const auto [first, last] = std::ranges::minmax(indices);
      throw runtime_error(kOwnSamples,
                          "samples " + std::to_string(first) + " to " + std::to_string(last) +
                              " of the " + std::to_string(size()) + " that there are",
                          std::string("an exception: ") + error.what(),
                          "OwnSamples::size as many as there are, and a function that makes each");
    }
  }

  OwnSamples samples_;
};

std::string digest_of(const at::Tensor& tensor) {
  return c10::str(
      tensor.scalar_type(), ' ', tensor.sizes(), ' ',
      checksum_of({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}));
}

at::Tensor rows_of(const at::Tensor& tensor, std::span<const std::int64_t> indices) {
  return tensor.index_select(0, detail::numbers_of(indices));
}

}  // namespace

void detail::require_samples(std::int64_t found, std::int64_t expected) {
  if (found == expected) return;
  throw usage_error(kOwnSamples, "a batch of " + counted(expected, "sample"),
                    "one of " + std::to_string(found), kAskedForOnly);
}

at::Tensor detail::numbers_of(std::span<const std::int64_t> indices) {
  const at::Tensor numbers = at::empty({std::ssize(indices)}, at::kLong);
  std::ranges::copy(indices, numbers.mutable_data_ptr<std::int64_t>());
  return numbers;
}

std::shared_ptr<const Source> own_source(OwnSamples samples) {
  return std::make_shared<Own>(std::move(samples));
}

std::shared_ptr<const Source> tensor_source(at::Tensor inputs, at::Tensor targets) {
  const auto rows = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
  };
  if (rows(inputs) != rows(targets))
    throw usage_error(
        kOwnSamples, "as many targets as inputs",
        std::to_string(rows(inputs)) + " inputs and " + std::to_string(rows(targets)) + " targets",
        "a row of both for each sample");
  inputs = inputs.detach().contiguous();
  targets = targets.detach().contiguous();
  return own_source({.size = rows(inputs),
                     .fetch =
                         [inputs, targets](std::span<const std::int64_t> indices) {
                           return batch::MicroBatch{.inputs = rows_of(inputs, indices),
                                                    .targets = rows_of(targets, indices)};
                         },
                     .identity = digest_of(inputs) + ", " + digest_of(targets)});
}

}  // namespace accrue::data
