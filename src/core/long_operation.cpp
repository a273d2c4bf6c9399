#include "accrue/core/long_operation.h"

#include <memory>

namespace accrue {

LongOperation::LongOperation(ShowProgress show, OperationProgress operation)
    : show_(std::move(show)), progress_(std::move(operation)) {
  progress_.id = this;
  report(OperationProgress::Stage::begun);
}

LongOperation::~LongOperation() { report(OperationProgress::Stage::ended); }

void LongOperation::begin_part(std::string part) {
  progress_.part = std::move(part);
  report(OperationProgress::Stage::under_way);
}

void LongOperation::count(std::int64_t done, std::int64_t all) {
  progress_.done = done;
  progress_.all = all;
  report(OperationProgress::Stage::under_way);
}

void LongOperation::report(OperationProgress::Stage stage) {
  progress_.stage = stage;
  if (show_) show_(progress_);
}

std::function<void(std::int64_t done, std::int64_t all)> counted_operation(
    ShowProgress show, OperationProgress operation) {
  if (!show) return {};
  return [show = std::move(show), operation = std::move(operation),
          under_way = std::make_shared<std::unique_ptr<LongOperation>>()](std::int64_t done,
                                                                          std::int64_t all) {
    if (*under_way == nullptr) *under_way = std::make_unique<LongOperation>(show, operation);
    (*under_way)->count(done, all);
    if (done >= all) under_way->reset();
  };
}

std::function<void(const std::string& stage)> staged_operation(ShowProgress show) {
  return [show = std::move(show), under_way = std::make_shared<std::unique_ptr<LongOperation>>()](
             const std::string& stage) {
    under_way->reset();  // before the next begins
    *under_way =
        std::make_unique<LongOperation>(show, OperationProgress{.name = stage, .at_once = true});
  };
}

}  // namespace accrue
