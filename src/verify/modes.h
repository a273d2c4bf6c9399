#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "accrue/verify/verify.h"
#include "verify/subject.h"

namespace accrue::proof {

/// Puts a model into a mode during its lifetime.
class InMode {
 public:
  InMode(const detail::VerifiedModel& model, Mode mode);
  ~InMode();
  InMode(const InMode&) = delete;
  InMode& operator=(const InMode&) = delete;

 private:
  std::vector<std::function<void()>> undo_;
};

}  // namespace accrue::proof
