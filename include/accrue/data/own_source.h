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

/// Samples that a program makes.
struct OwnSamples {
  std::int64_t size = 0;  ///< number of samples
  /// Makes samples `indices`, in order: one row of `inputs` per sample (and of `targets` and
  /// `weights`, if defined). It must be a pure function of the indices; several threads call it.
  std::function<batch::MicroBatch(std::span<const std::int64_t> indices)> fetch;
  /// Identifies the data; a resumption compares it. Not empty.
  std::string identity;
  std::int64_t tokens = 1;  ///< of each sample
  std::int64_t vocab = 0;   ///< number of classes or words of targets; 0: unknown
};

namespace detail {

/// Throws a usage Error if a batch does not have the expected number of samples.
void require_samples(std::int64_t found, std::int64_t expected);
/// The indices as a tensor [B] int64.
at::Tensor numbers_of(std::span<const std::int64_t> indices);

}  // namespace detail

/// A source of the program's samples. Throws a usage Error if there are no samples or no identity.
/// A fetch throws a usage Error if a micro-batch does not have one row per index, and a runtime
/// Error that names the samples if the function throws.
std::shared_ptr<const Source> own_source(OwnSamples samples);

/// Samples that a program makes in its own batch type, which its loss function receives
/// (train/custom.h).
template <class Batch>
struct OwnBatches {
  std::int64_t size = 0;  ///< number of samples
  /// Makes samples `indices`, in order, as one batch. It must be a pure function of the indices,
  /// called by several threads: any micro-batch can be made again, and none is ever split. Code
  /// that receives a batch must not change it or its tensors: a pass may run on it again.
  std::function<Batch(std::span<const std::int64_t> indices)> fetch;
  std::string identity;     ///< as in OwnSamples
  std::int64_t tokens = 1;  ///< of each sample
};

/// A source of batches of the program's type, in MicroBatch::own; `inputs` are the samples'
/// indices. Throws the usage Errors of own_source(OwnSamples). A fetch throws one if there is an
/// overload batch_size(batch) for the type and it does not return the number of indices.
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

/// A source of samples in memory, one row of `inputs` and `targets` each, identified by their
/// bytes. Throws a usage Error if the numbers of rows differ.
std::shared_ptr<const Source> tensor_source(at::Tensor inputs, at::Tensor targets);

/// Samples in sequential order, for example from a decoder or a pipe, whose number is
/// known.
struct StreamSamples {
  std::int64_t size = 0;  ///< number of samples
  /// Returns the next samples in order: at least one row and at most `count`; after the last sample
  /// nothing (`inputs` undefined or without rows).
  using Next = std::function<batch::MicroBatch(std::int64_t count)>;
  /// Starts at sample `position`. A program that can only start at the first sample must read up to
  /// `position` and discard the samples. Called for the first sample needed (0, or the position of
  /// a resumed run), for each further epoch, and if samples are needed again that are no longer
  /// kept.
  std::function<Next(std::int64_t position)> open;
  /// The number of samples kept in case they are run again: micro-batches that ran out of memory, a
  /// replay, trials. Two batches plus the loader's queue (two micro-batches) are enough.
  std::int64_t keep = 0;
  /// Identifies the data; a resumption compares it. Not empty.
  std::string identity;
  std::int64_t tokens = 1;  ///< of each sample
  std::int64_t vocab = 0;   ///< number of classes or words of targets; 0: unknown
};

/// A stream as a source. Only sequential order (data.order), with separate validation data. If
/// `open` gives the same samples each time, everything works as for other sources: replay,
/// evaluation, resumption with the same bits. Throws a usage Error if there are no samples or no
/// identity; fetches do if the stream ends before `size` samples or continues after them (naming
/// the number), or if its rows have more than inputs, targets, weights and columns.
std::shared_ptr<const Source> stream_source(StreamSamples samples);

}  // namespace accrue::data
