// All files of this folder are one function, in the order of report.cmake.
(() => {
"use strict";

