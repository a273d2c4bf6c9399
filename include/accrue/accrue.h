#pragma once

// The headers that a custom training loop needs: a step on a batch of any size, an accumulator for
// an existing loop and its other forms, the plan of its micro-batches, the ranks that share a
// window, and the verification of accumulated gradients. `accrue::Trainer` and the models have
// separate headers.

#include "accrue/accum/accumulate.h"
#include "accrue/accum/accumulating_optimizer.h"
#include "accrue/accum/accumulator.h"
#include "accrue/accum/accumulator_archive.h"
#include "accrue/core/error.h"
#include "accrue/core/loss.h"
#include "accrue/core/step_report.h"
#include "accrue/distributed/group.h"
#include "accrue/kernels/accelerate.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/train/coupled_step.h"
#include "accrue/train/loop_plan.h"
#include "accrue/train/step.h"
#include "accrue/verify/verify.h"
