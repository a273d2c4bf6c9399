#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "accrue/data/source.h"

namespace accrue::data {

/// Samples that a program makes itself.
struct OwnSamples {
  std::int64_t size = 0;  ///< how many there are
  /// Makes samples `indices`, a row of `inputs` (and of `targets` and `weights`, where these are
  /// defined) for each, in order. It is a pure function of the indices, which several threads call.
  std::function<batch::MicroBatch(std::span<const std::int64_t> indices)> fetch;
  /// Identifies the data: what a resumption compares. Not empty.
  std::string identity;
  std::int64_t tokens = 1;  ///< of each sample
  std::int64_t vocab = 0;   ///< classes or words that targets are of; 0: not told
};

namespace detail {

/// Throws a usage Error unless a batch has as many samples as it was to have.
void require_samples(std::int64_t found, std::int64_t expected);
/// The indices as a tensor [B] int64.
at::Tensor numbers_of(std::span<const std::int64_t> indices);

}  // namespace detail

/// Samples of the program's own as a source. Throws a usage Error if there are none, or no
/// identity; so do its fetches if a micro-batch does not have a row for each index, and a
/// runtime Error that names the samples where the function throws.
std::shared_ptr<const Source> own_source(OwnSamples samples);

/// Samples that a program makes as a batch type of its own, which its loss function gets
/// (train/custom.h).
template <class Batch>
struct OwnBatches {
  std::int64_t size = 0;  ///< how many samples there are
  /// Makes samples `indices`, in order, as one batch. It is a pure function of the indices, which
  /// several threads call: any micro-batch can be made again, and none is ever cut. Whoever gets a
  /// batch leaves it as it is, tensors in it included: a pass may run again from the same one.
  std::function<Batch(std::span<const std::int64_t> indices)> fetch;
  std::string identity;     ///< as of OwnSamples
  std::int64_t tokens = 1;  ///< of each sample
};

/// Samples as batches of the program's own, in MicroBatch::own; `inputs` are the samples' numbers.
/// Throws a usage Error as own_source(OwnSamples) does; so do its fetches if there is a
/// batch_size(batch) beside the type and it is not the number of indices.
template <class Batch>
std::shared_ptr<const Source> own_source(OwnBatches<Batch> batches) {
  OwnSamples samples{
      .size = batches.size, .identity = std::move(batches.identity), .tokens = batches.tokens};
  if (batches.fetch)
    samples.fetch = [fetch = std::move(batches.fetch)](std::span<const std::int64_t> indices) {
      Batch made = fetch(indices);
      if constexpr (requires { static_cast<std::int64_t>(batch_size(made)); })
        detail::require_samples(batch_size(made), std::ssize(indices));
      return batch::MicroBatch{.inputs = detail::numbers_of(indices),
                               .own = batch::OwnBatch::of(std::move(made))};
    };
  return own_source(std::move(samples));
}

/// Samples that lie in memory: a row of `inputs` and of `targets` each; identified by their bytes.
/// Throws a usage Error if their numbers differ.
std::shared_ptr<const Source> tensor_source(at::Tensor inputs, at::Tensor targets);

/// Samples that come one after the other, such as what a decoder or a pipe gives, of which it is
/// known how many there are.
struct StreamSamples {
  std::int64_t size = 0;  ///< how many there are
  /// Gives the next samples in order: at least one row and at most `count`; behind the last sample
  /// nothing (`inputs` undefined or without rows).
  using Next = std::function<batch::MicroBatch(std::int64_t count)>;
  /// Begins at sample `position`. A program that can only begin at the first one reads forward to
  /// it and forgets what it reads. Called for the first sample that is wanted (0, or where a
  /// resumed run goes on), for each further epoch, and where samples are wanted again that are no
  /// longer kept.
  std::function<Next(std::int64_t position)> open;
  /// How many samples are kept for what runs them again: micro-batches that ran out of memory, a
  /// replay, trials. Two batches and what the loader has ready (two micro-batches) are enough.
  std::int64_t keep = 0;
  /// Identifies the data: what a resumption compares. Not empty.
  std::string identity;
  std::int64_t tokens = 1;  ///< of each sample
  std::int64_t vocab = 0;   ///< classes or words that targets are of; 0: not told
};

/// A stream as a source: sequential order only (data.order), and validation data of its own. Where
/// `open` gives the same samples each time, all of a run holds: replay, evaluation, resumption to
/// the bit. Throws a usage Error if there are none, or no identity; its fetches do where the
/// stream ends before `size` samples or goes on behind them, by number, and where its rows have
/// more than inputs, targets, weights and columns.
std::shared_ptr<const Source> stream_source(StreamSamples samples);

}  // namespace accrue::data
