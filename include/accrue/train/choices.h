#pragma once

#include <string_view>

#include "accrue/core/enum_words.h"

/// Choices in a config that no other component defines; each with its words in the
/// config.
namespace accrue::train {

/// Named like torch's devices: those to which a parameter can be moved without conversion.
enum class Device { cpu, cuda, xpu, mps, hpu, mtia };
inline constexpr auto device_words = enum_words<Device>({{Device::cpu, "cpu"},
                                                         {Device::cuda, "cuda"},
                                                         {Device::xpu, "xpu"},
                                                         {Device::mps, "mps"},
                                                         {Device::hpu, "hpu"},
                                                         {Device::mtia, "mtia"}});
/// Whether tests run on the device; each `accrue train` checks any other device.
inline constexpr bool is_tested(Device device) {
  return device == Device::cpu || device == Device::cuda;
}

enum class ModelKind {
  gpt2,
  llama,
  bert,
  vit,
  resnet,
  torchscript,
  custom,  ///< provided by the program (train::Custom)
};
inline constexpr auto model_kind_words =
    enum_words<ModelKind>({{ModelKind::gpt2, "gpt2"},
                           {ModelKind::llama, "llama"},
                           {ModelKind::bert, "bert"},
                           {ModelKind::vit, "vit"},
                           {ModelKind::resnet, "resnet"},
                           {ModelKind::torchscript, "torchscript"},
                           {ModelKind::custom, "custom"}});
constexpr std::string_view to_string(ModelKind kind) { return model_kind_words.of(kind); }
/// Whether models of this kind are accrue's language models.
constexpr bool is_language_model(ModelKind kind) {
  return kind == ModelKind::gpt2 || kind == ModelKind::llama || kind == ModelKind::bert;
}
/// Whether a model of this kind is not accrue's, so that its inputs are unknown.
constexpr bool is_foreign(ModelKind kind) {
  return kind == ModelKind::torchscript || kind == ModelKind::custom;
}

/// Whether accrue runs the operations of a model that is not accrue's (kernels/accelerate.h).
enum class Accelerate {
  automatic,  ///< if a pass over the first samples agrees with libtorch's
  on,
  off,
};
inline constexpr auto accelerate_words = enum_words<Accelerate>(
    {{Accelerate::automatic, "auto"}, {Accelerate::on, "on"}, {Accelerate::off, "off"}});

/// The place in which gradients of micro-batches are summed.
enum class GradientPlace {
  buffer,
  optimizer,  ///< in the optimizer's state, without a gradient buffer
};
inline constexpr auto gradient_place_words = enum_words<GradientPlace>(
    {{GradientPlace::buffer, "buffer"}, {GradientPlace::optimizer, "optimizer"}});

/// The order in which the micro-batches of a window pass through the model.
enum class AccumulationOrder {
  automatic,  ///< standard, unless memory.offload or exact batch normalisation needs layered
  standard,   ///< each through all segments before the next micro-batch
  layered,    ///< all through one segment before the next segment (arXiv:2106.02679)
};
inline constexpr auto accumulation_order_words =
    enum_words<AccumulationOrder>({{AccumulationOrder::automatic, "auto"},
                                   {AccumulationOrder::standard, "standard"},
                                   {AccumulationOrder::layered, "layered"}});

enum class CrossEntropy {
  fused,  ///< in chunks of rows
  plain,  ///< from complete logits
};
inline constexpr auto cross_entropy_words =
    enum_words<CrossEntropy>({{CrossEntropy::fused, "fused"}, {CrossEntropy::plain, "plain"}});

/// The reaction to a diverging loss.
enum class OnDivergence {
  warn,  ///< an event, and the run continues
  stop,  ///< the run ends with an error, without the step
};
inline constexpr auto on_divergence_words =
    enum_words<OnDivergence>({{OnDivergence::warn, "warn"}, {OnDivergence::stop, "stop"}});

enum class OptimizerKind { adamw, adam, sgd, rmsprop, adama };
inline constexpr auto optimizer_kind_words =
    enum_words<OptimizerKind>({{OptimizerKind::adamw, "adamw"},
                               {OptimizerKind::adam, "adam"},
                               {OptimizerKind::sgd, "sgd"},
                               {OptimizerKind::rmsprop, "rmsprop"},
                               {OptimizerKind::adama, "adama"}});
constexpr std::string_view to_string(OptimizerKind kind) { return optimizer_kind_words.of(kind); }

/// The parameters to which weight decay applies.
enum class Decay { matrices, all };
inline constexpr auto decay_words =
    enum_words<Decay>({{Decay::matrices, "matrices"}, {Decay::all, "all"}});

/// The unit in which a batch is stated.
enum class BatchUnit { tokens, samples, micro_batches };
inline constexpr auto batch_unit_words =
    enum_words<BatchUnit>({{BatchUnit::tokens, "tokens"},
                           {BatchUnit::samples, "samples"},
                           {BatchUnit::micro_batches, "micro_batches"}});

/// How a batch grows to its stated size.
enum class RampShape { linear, doubling };
inline constexpr auto ramp_shape_words =
    enum_words<RampShape>({{RampShape::linear, "linear"}, {RampShape::doubling, "doubling"}});

/// The norm for the gradient noise that decides about the batch.
enum class NoiseGeometry {
  optimizer,  ///< Adam's: each element over the root of its second moment; else Euclidean
  euclidean,
  sign,  ///< the sum of absolute values, dual to a step by signs
};
inline constexpr auto noise_geometry_words =
    enum_words<NoiseGeometry>({{NoiseGeometry::optimizer, "optimizer"},
                               {NoiseGeometry::euclidean, "euclidean"},
                               {NoiseGeometry::sign, "sign"}});

enum class NoiseDetail { total, blocks, none };
inline constexpr auto noise_detail_words = enum_words<NoiseDetail>(
    {{NoiseDetail::total, "total"}, {NoiseDetail::blocks, "blocks"}, {NoiseDetail::none, "none"}});

/// The transport between ranks for sums on GPUs. All other messages use Gloo.
enum class Backend { gloo, nccl };
inline constexpr auto backend_words =
    enum_words<Backend>({{Backend::gloo, "gloo"}, {Backend::nccl, "nccl"}});

/// The time at which ranks sum their gradients.
enum class Reduce {
  overlap,  ///< during the last micro-batch's backward
  end,
};
inline constexpr auto reduce_words =
    enum_words<Reduce>({{Reduce::overlap, "overlap"}, {Reduce::end, "end"}});

/// How a batch is divided between ranks.
enum class Shares { speed, equal };
inline constexpr auto shares_words =
    enum_words<Shares>({{Shares::speed, "speed"}, {Shares::equal, "equal"}});

/// The state that is divided among ranks.
enum class Shard {
  none,
  optimizer,  ///< the optimizer's state
  all         ///< that, parameters and gradients' sums; in layered order
};
inline constexpr auto shard_words = enum_words<Shard>(
    {{Shard::none, "none"}, {Shard::optimizer, "optimizer"}, {Shard::all, "all"}});
constexpr std::string_view to_string(Shard shard) { return shard_words.of(shard); }

/// The copy of a rank's part of the divided state.
enum class ShardReplica {
  none,  ///< no copy: if the rank is lost, the run goes back to its last checkpoint
  next   ///< on the next rank
};
inline constexpr auto shard_replica_words =
    enum_words<ShardReplica>({{ShardReplica::none, "none"}, {ShardReplica::next, "next"}});

}  // namespace accrue::train
