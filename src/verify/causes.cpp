#include "verify/causes.h"

namespace accrue::proof {

CauseInWords in_words(Cause cause) {
  switch (cause) {
    case Cause::none:
    case Cause::unknown:
      break;
    case Cause::batchnorm:
      return {"batch normalisation takes its statistics from the micro-batch",
              "put group normalisation in the place of batch normalisation, or take its statistics "
              "over the whole batch (model.batchnorm = \"convert-group\" or \"exact\")"};
    case Cause::dropout:
      return {"dropout draws its masks in the order of the passes, so they depend on the split",
              "use a model whose masks follow the sample (gpt2, llama, bert, vit), or no dropout"};
    case Cause::weighting:
      return {"micro-batches do not count by their weights",
              "return Loss{sum over the terms, how many there were} from the loss, and no mean"};
    case Cause::normalization:
      return {"the gradient is off by a constant factor",
              "leave out the factor or division that depends on the micro-batch"};
    case Cause::precision:
      return {"sums lose more to rounding than the parameters' dtype has to",
              "keep sums and losses in the parameters' dtype (precision.accumulate = \"fp32\")"};
    case Cause::nondeterminism:
      return {"the same pass from the same seed gives two results",
              "take out of the loss what differs from pass to pass (counters, unseeded draws), or "
              "ask libtorch for deterministic algorithms"};
    case Cause::batch_coupled_loss:
      return {"the loss is no sum over samples: what one contributes depends on the others",
              "use a loss that is a sum over samples, or accrue::coupled_step, which takes one "
              "over the whole batch"};
    case Cause::zeroed_mid_window:
      return {"gradients are cleared between the micro-batches of a window",
              "clear gradients once, before the first micro-batch"};
    case Cause::stepped_mid_window:
      return {"parameters change between the micro-batches of a window",
              "call step() once, after the last micro-batch"};
    case Cause::schedule_per_micro_batch:
      return {"the learning rate's schedule advances by micro-batches and not by optimizer steps",
              "step the schedule once, behind the optimizer's step"};
    case Cause::decay_per_micro_batch:
      return {"weights are decayed between the micro-batches of a window",
              "leave decay to the optimizer's step, which comes once"};
    case Cause::clip_per_micro_batch:
      return {"gradients are clipped before the window's sum is complete",
              "clip once, the mean gradient, behind the last micro-batch"};
    case Cause::packing_leak:
      return {"documents that are packed into one row see each other",
              "give the model attention that ends where a document does (position_ids that restart "
              "there, with an attention that reads them), and no label across the border"};
    case Cause::last_window:
      return {"a short last window is dropped, or divided as if it were whole",
              "step behind the last micro-batch, too, and divide by what the window holds"};
    case Cause::scaled_twice:
      return {"the loss is divided by the number of micro-batches once too often",
              "divide in one place: in the loop, or in what it calls"};
    case Cause::last_micro_batch_only:
      return {"only the last micro-batch's gradient is used",
              "call backward() for each micro-batch, inside the loop over them"};
    case Cause::carried_state:
      return {
          "a forward pass leaves state that the next one reads, so micro-batches depend on "
          "their order",
          "accept it if it is meant (spectral normalisation, hidden states, codebooks), "
          "or keep that state fixed within a window"};
    case Cause::device_mean:
      return {"devices' own means are averaged, although their batches weigh differently",
              "add up sums and weights over the devices, and divide once"};
  }
  return {"", ""};
}

}  // namespace accrue::proof
