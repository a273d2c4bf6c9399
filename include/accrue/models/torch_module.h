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

/// Makes a Trainable from a torch::nn::Sequential: a chain of segments, cut at every BatchNorm1d,
/// 2d and 3d among its direct modules; each begins a block. Its Dropout modules draw accrue's
/// masks, by sample id. It reads micro.inputs, floating-point ones in the parameters' dtype.
/// Parameters and buffers have the network's names and are shared with it.
///
/// Its other modules are not cut, including those derived from Sequential, whose forward may do
/// more than run their modules: a batch normalisation or dropout inside of one is reported
/// (foreign_layers()). Such dropout draws from libtorch's generator, which a pass seeds from (seed,
/// window, first sample id, segment) and restores: a repeated pass has the same bits, but masks
/// depend on the split, unless accrue runs the modules' operations (Model::accelerate). Their
/// buffers may be state that a forward reads and changes: recomputation starts from the state of
/// the first run. A batch normalisation with cumulative averages (no momentum) is not cut either. A
/// pass sets the mode of the whole network: a batch normalisation or dropout that was put into
/// evaluation mode separately does not stay in it. Throws a usage Error for a network without
/// modules.
std::unique_ptr<Trainable> from_sequential(const torch::nn::Sequential& network, LossFunction loss,
                                           const std::string& name);

/// The output of a module for a micro-batch.
using ModuleForward = std::function<at::Tensor(const batch::MicroBatch& micro)>;

/// Makes a Trainable of one segment from any module. `forward` runs the module, to which it holds a
/// reference. Parameters, buffers and layers are those of `module`.
std::unique_ptr<Trainable> from_module(std::shared_ptr<torch::nn::Module> module,
                                       ModuleForward forward, LossFunction loss,
                                       const std::string& name);

/// The loss of a micro-batch, by a function that holds a reference to a module and runs it.
using MicroBatchLoss = std::function<Loss(const batch::MicroBatch& micro)>;

/// Makes a Trainable of one segment that ends in its loss, for a loss function that runs the
/// module. It receives floating-point inputs and columns in the parameters' dtype.
std::unique_ptr<Trainable> from_loss(std::shared_ptr<torch::nn::Module> module, MicroBatchLoss loss,
                                     const std::string& name);

/// One of several losses of a module.
struct NamedLoss {
  std::string name;
  double coefficient = 1;  ///< the weight of its mean in the total
  /// The weight of the loss, from the labels alone: several losses need it before the first
  /// backward of a batch.
  std::function<double(const batch::MicroBatch& micro)> weight;
};
/// The losses of a micro-batch, in the order of their names.
using MicroBatchLosses = std::function<std::vector<Loss>(const batch::MicroBatch& micro)>;

/// Makes one segment of a module with several losses, each with its own denominator.
std::unique_ptr<Trainable> from_losses(std::shared_ptr<torch::nn::Module> module,
                                       MicroBatchLosses losses, std::vector<NamedLoss> named,
                                       const std::string& name);

}  // namespace accrue::models
