#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accrue/models/class_loss.h"
#include "accrue/models/trainable.h"

namespace torch::nn {
class Module;
class Sequential;
}  // namespace torch::nn

namespace accrue::models {

/// The loss of a network's output over a micro-batch, as a sum and a weight.
using LossFunction = std::function<Loss(const at::Tensor& output, const batch::MicroBatch& micro)>;

/// A torch::nn::Sequential as a chain of segments, cut at every BatchNorm1d, 2d and 3d among its
/// own modules; each begins a block. Its Dropout modules draw accrue's masks, by sample id. It
/// reads micro.inputs, floating-point ones in the parameters' dtype. Parameters and buffers carry
/// the network's own names and are shared with it.
///
/// Its other modules are black boxes, also those derived from Sequential, whose forward may do more
/// than run what they hold: a batch normalisation or dropout inside of one is reported
/// (foreign_layers()). Such dropout draws from libtorch's generator, which a pass seeds from (seed,
/// window, first sample id, segment) and restores: a pass can be repeated to the bit, but masks
/// depend on the split, unless accrue does the modules' operations (Model::accelerate). Their
/// buffers may be state that a forward reads and moves: recomputation
/// starts from it as the first run did. A batch normalisation whose running statistics are
/// cumulative averages (no momentum) is a black box too. A pass puts the network into its mode as a
/// whole: a batch normalisation or dropout that was put into evaluation mode by itself does not
/// stay there. Throws a usage Error for a network without modules.
std::unique_ptr<Trainable> from_sequential(const torch::nn::Sequential& network, LossFunction loss,
                                           const std::string& name);

/// What a module makes of a micro-batch.
using ModuleForward = std::function<at::Tensor(const batch::MicroBatch& micro)>;

/// Any module as one segment, run by `forward`, which refers to it. `module` tells the parameters,
/// buffers and what is inside.
std::unique_ptr<Trainable> from_module(std::shared_ptr<torch::nn::Module> module,
                                       ModuleForward forward, LossFunction loss,
                                       const std::string& name);

/// The loss of a micro-batch, by a module that it refers to and runs.
using MicroBatchLoss = std::function<Loss(const batch::MicroBatch& micro)>;

/// Any module as one segment that ends in its loss, for a loss function that runs the module
/// itself. It sees floating-point inputs and columns in the parameters' dtype.
std::unique_ptr<Trainable> from_loss(std::shared_ptr<torch::nn::Module> module, MicroBatchLoss loss,
                                     const std::string& name);

/// One of several losses of a module.
struct NamedLoss {
  std::string name;
  double coefficient = 1;  ///< how much its mean counts in the total
  /// The weight that it will have, from the labels alone: several losses need it before the first
  /// backward of a batch.
  std::function<double(const batch::MicroBatch& micro)> weight;
};
/// The losses of a micro-batch, in the order of their names.
using MicroBatchLosses = std::function<std::vector<Loss>(const batch::MicroBatch& micro)>;

/// Makes one segment of a module with several losses, each with a denominator of its own.
std::unique_ptr<Trainable> from_losses(std::shared_ptr<torch::nn::Module> module,
                                       MicroBatchLosses losses, std::vector<NamedLoss> named,
                                       const std::string& name);

}  // namespace accrue::models
