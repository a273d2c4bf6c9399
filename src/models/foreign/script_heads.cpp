#include "models/foreign/script_heads.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "accrue/batch/column_length.h"
#include "accrue/core/error.h"
#include "accrue/models/class_loss.h"
#include "models/foreign/script_method.h"

namespace accrue::models {
namespace {

/// A micro-batch with the labels of `loss`, so that only these are counted.
batch::MicroBatch with_labels_of(const ScriptLoss& loss, const batch::MicroBatch& micro) {
  const at::Tensor target = named_tensor(micro, loss.target);
  if (!target.defined())
    throw usage_error("loss \"" + loss.name + '"', "data with \"" + loss.target + '"',
                      columns_in_words(micro),
                      "target = \"...\" of a column in loss.heads, or the field in data.columns");
  batch::MicroBatch labelled{.inputs = micro.inputs, .targets = target};
  if (micro.targets.defined() && target.is_same(micro.targets)) labelled.weights = micro.weights;
  labelled.sample_ids = micro.sample_ids;
  return labelled;
}

/// A mask of the elements of a target that are not padding of its lists; undefined if none is.
at::Tensor counted_elements(const ScriptLoss& loss, const batch::MicroBatch& micro,
                            const at::Tensor& target) {
  const auto lengths = micro.columns.find(batch::length_column(loss.target));
  if (lengths == micro.columns.end() || target.dim() < 2) return {};
  at::Tensor mask = at::arange(target.size(1)).unsqueeze(0) < lengths->second.unsqueeze(1);
  while (mask.dim() < target.dim()) mask = mask.unsqueeze(-1);
  return mask.expand(target.sizes());
}

/// How many elements of `target` count; `mask` is its counted_elements().
double count_of(const at::Tensor& target, const at::Tensor& mask) {
  return mask.defined() ? mask.sum().item<double>() : static_cast<double>(target.numel());
}

Loss squared_error(const ScriptLoss& loss, const at::Tensor& output,
                   const batch::MicroBatch& micro) {
  const at::Tensor target = with_labels_of(loss, micro).targets;
  const bool has_column = output.dim() == target.dim() + 1 && output.size(-1) == 1;
  const at::Tensor values = has_column ? output.squeeze(-1) : output;
  if (values.sizes() != target.sizes())
    throw usage_error("loss \"" + loss.name + '"',
                      c10::str("an output ", target.sizes(), ", as \"", loss.target, "\" is"),
                      c10::str(output.sizes()), "a module whose output goes with the data");
  at::Tensor error = values - target.to(values.scalar_type());
  const at::Tensor mask = counted_elements(loss, micro, target);
  if (mask.defined()) error = error.masked_fill(mask.logical_not(), 0);
  return {.sum = error.square().sum(), .weight = count_of(target, mask)};
}

LossHead squared_error_head(const ScriptLoss& loss, std::size_t place) {
  return {
      .name = loss.name,
      .forward = [loss, place](const Activations& outputs, const batch::MicroBatch& micro,
                               const ForwardContext&,
                               double) { return squared_error(loss, outputs.at(place), micro); },
      .weight =
          [loss](const batch::MicroBatch& micro) {
            const at::Tensor target = with_labels_of(loss, micro).targets;
            return count_of(target, counted_elements(loss, micro, target));
          },
      .coefficient = loss.coefficient};
}

LossHead cross_entropy_head(const ScriptLoss& loss, std::size_t place, const LossOptions& options) {
  const LossHead of_labels = class_cross_entropy_head(options);
  return {.name = loss.name,
          .forward =
              [of_labels, loss, place](const Activations& outputs, const batch::MicroBatch& micro,
                                       const ForwardContext& context, double scale) {
                return of_labels.forward({outputs.at(place)}, with_labels_of(loss, micro), context,
                                         scale);
              },
          .weight =
              [of_labels, loss](const batch::MicroBatch& micro) {
                return of_labels.weight(with_labels_of(loss, micro));
              },
          .coefficient = loss.coefficient,
          .correct =
              [of_labels, loss, place](const Activations& outputs, const batch::MicroBatch& micro) {
                return of_labels.correct({outputs.at(place)}, with_labels_of(loss, micro));
              }};
}

}  // namespace

std::vector<std::string> outputs_read(const std::vector<ScriptLoss>& losses) {
  std::vector<std::string> outputs;
  for (const ScriptLoss& loss : losses)
    if (std::ranges::find(outputs, loss.output) == outputs.end()) outputs.push_back(loss.output);
  return outputs;
}

std::vector<LossHead> heads_on_outputs(const std::vector<ScriptLoss>& losses,
                                       const LossOptions& options) {
  const std::vector<std::string> outputs = outputs_read(losses);
  std::vector<LossHead> heads;
  for (const ScriptLoss& loss : losses) {
    const auto place =
        static_cast<std::size_t>(std::ranges::find(outputs, loss.output) - outputs.begin());
    heads.push_back(loss.kind == ScriptLossKind::mse ? squared_error_head(loss, place)
                                                     : cross_entropy_head(loss, place, options));
  }
  return heads;
}

}  // namespace accrue::models
